"""`storage`, `settings` and `index`: the administration of a service."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mangrove.client import Client, ClientError
from mangrove.client.models import ListedStorage, SettingReq, SettingRow
from mangrove.commands.context import Context, read_secret
from mangrove.commands.output import Status, make_notify
from mangrove.commands.remote_paths import normalize

MAX_OPTIONS_BYTES = 1 << 20
POLL_SECONDS = 0.5


def list_storages(context: Context) -> int:
    """Print all storages with their status."""
    rows = _read_storages(context.client)
    context.output.print_rows(rows, ("id", "mount_path", "driver", "status", "disabled"))
    return Status.DONE


def _read_storages(client: Client) -> list[ListedStorage]:
    return client.admin_storage_list(page="1", per_page="0")["content"]


def add_storage(context: Context) -> int:
    """Create a storage and print its status."""
    options, client = context.options, context.client
    addition = _read_options(client, options.driver, options.option, options.options_file)
    client.admin_storage_create(mount_path=options.mount_path, driver=options.driver, addition=json.dumps(addition))
    row = _find_storage(client, normalize(options.mount_path))
    context.output.print_result(f"{row['mount_path']}: {row['status']}", **row)
    return Status.DONE


def _read_options(client: Client, driver: str, pairs: list[str], file: str) -> dict[str, Any]:
    """Return the options of a driver: those of a JSON file, and pairs with the types of its form."""
    types = {row["name"]: row["type"] for row in client.admin_driver_info(driver=driver)["additional"]}
    options = _read_document(file) if file else {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or name not in types:
            raise ClientError(f"{pair}: not an option of {driver}; there are {', '.join(sorted(types))}")
        options[name] = _convert(name, value, types[name])
    if unknown := set(options) - set(types):
        raise ClientError(f"{', '.join(sorted(unknown))}: not an option of {driver}")
    return options


def _read_document(file: str) -> dict[str, Any]:
    try:
        if file == "-":
            text = sys.stdin.read(MAX_OPTIONS_BYTES)
        else:
            with Path(file).open() as stream:
                text = stream.read(MAX_OPTIONS_BYTES)
        document = json.loads(text)
    except (OSError, ValueError) as error:
        raise ClientError(f"cannot read the options in {file}: {error}") from None
    if not isinstance(document, dict):
        raise ClientError(f"{file} has no JSON object")
    return document


def _convert(name: str, value: str, kind: str) -> Any:
    if kind == "bool":
        if value not in ("true", "false"):
            raise ClientError(f"{name} is true or false")
        return value == "true"
    if kind not in ("number", "float"):
        return value
    try:
        return int(value) if kind == "number" else float(value)
    except ValueError:
        raise ClientError(f"{name} is a number") from None


def _find_storage(client: Client, mount_path: str) -> ListedStorage:
    for row in _read_storages(client):
        if row["mount_path"] == mount_path:
            return row
    raise ClientError(f"no storage is mounted at {mount_path}", problem="NotFound")


def test_storages(context: Context) -> int:
    """Read the root folder of storages and print which of them answer."""
    client = context.client
    rows = _read_storages(client)
    if context.options.mount_paths:
        rows = [_find_storage(client, normalize(path)) for path in context.options.mount_paths]
    results = [_test_storage(client, row) for row in rows if not row["disabled"]]
    context.output.print_rows(results, ("mount_path", "driver", "result", "seconds"))
    return Status.DONE if all(result["ok"] for result in results) else Status.FAILED


def _test_storage(client: Client, row: ListedStorage) -> dict[str, Any]:
    start, result = time.monotonic(), "ok"
    try:
        client.fs_list(path=row["mount_path"], refresh=True, page=1, per_page=1)
    except ClientError as error:
        result = str(error)
    seconds = round(time.monotonic() - start, 3)
    return {"mount_path": row["mount_path"], "driver": row["driver"], "result": result, "seconds": seconds,
            "ok": result == "ok"}  # fmt: skip


def reload_storages(context: Context) -> int:
    """Start all storages again."""
    context.client.admin_storage_load_all()
    context.output.print_result("reloaded")
    return Status.DONE


def delete_storage(context: Context) -> int:
    """Delete the record of a storage; its files stay."""
    row = _find_storage(context.client, normalize(context.options.mount_path))
    context.client.admin_storage_delete(id=row["id"])
    context.output.print_result(f"{row['mount_path']} is no storage any more; its files stay", id=row["id"])
    return Status.DONE


def get_settings(context: Context) -> int:
    """Print settings."""
    rows = _read_settings(context.client)
    if keys := context.options.keys:
        if unknown := set(keys) - set(rows):
            raise ClientError(f"there is no setting {', '.join(sorted(unknown))}", problem="NotFound")
        rows = {key: rows[key] for key in keys}
        if len(keys) == 1 and not context.output.is_json:
            print(rows[keys[0]]["value"])
            return Status.DONE
    context.output.print_rows(rows.values(), ("key", "value"))
    return Status.DONE


def _read_settings(client: Client) -> dict[str, SettingRow]:
    return {row["key"]: row for row in client.admin_setting_list()}


def set_settings(context: Context) -> int:
    """Change settings, all or none."""
    rows = list(_parse_settings(context.options.pairs, _read_settings(context.client)))
    context.client.admin_setting_save(rows)
    keys = [row["key"] for row in rows]
    context.output.print_result(f"changed: {', '.join(keys)}", changed=keys)
    return Status.DONE


def _parse_settings(pairs: list[str], known: dict[str, SettingRow]) -> Iterator[SettingReq]:
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if key not in known:
            raise ClientError(f"there is no setting {key}", problem="NotFound")
        yield {"key": key, "value": value if sign else read_secret(f"Value of {key}")}


def show_index(context: Context) -> int:
    """Print the state of the index of names."""
    progress = context.client.admin_index_progress()
    state = "complete" if progress["is_done"] else "being built"
    text = f"{state}, {progress['obj_count']:,} names" + (f": {progress['error']}" if progress["error"] else "")
    context.output.print_result(text, **progress)
    return Status.DONE


def build_index(context: Context) -> int:
    """Build the index of all names, or update it below paths, and wait for the end."""
    paths = [normalize(path) for path in context.options.paths]
    if paths:
        context.client.admin_index_update(paths=paths)
    else:
        context.client.admin_index_build()
    if context.options.no_wait:
        context.output.print_result("started", started=True)
        return Status.DONE
    with context.output.open_bar("index", unit=" names") as bar:
        notify = make_notify(bar)
        while not (progress := context.client.admin_index_progress())["is_done"]:
            notify(progress["obj_count"])
            time.sleep(POLL_SECONDS)
    if progress["error"]:
        raise ClientError(progress["error"])
    return show_index(context)


def stop_index(context: Context) -> int:
    """Stop the building of the index."""
    context.client.admin_index_stop()
    context.output.print_result("stopped", stopped=True)
    return Status.DONE


def clear_index(context: Context) -> int:
    """Delete the index."""
    context.client.admin_index_clear()
    context.output.print_result("deleted", deleted=True)
    return Status.DONE
