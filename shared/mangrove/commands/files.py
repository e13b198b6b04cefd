"""`ls`, `mkdir`, `rm`, `cp` and `mv`: work within the tree."""

from __future__ import annotations

import posixpath
import tempfile
from collections.abc import Iterator, Sequence

from mangrove.client import ClientError
from mangrove.client.transfers import MAX_SPOOLED_BYTES, upload
from mangrove.commands.context import Context
from mangrove.commands.output import Status, clean, format_size, make_notify
from mangrove.commands.remote_paths import RemoteEntry, expand, find_entry, make_entry, normalize

MAX_NAMES_PER_REQUEST = 1000
TIME_LENGTH = len("2026-01-01 00:00")


def list_entries(context: Context) -> int:
    """Print entries, and those of folders."""
    client, options = context.client, context.options
    arguments = list(expand(client, options.paths or ["/"], is_literal=options.literal))
    rows: list[tuple[str, RemoteEntry]] = []

    def add(entry: RemoteEntry, shown: str) -> None:
        if context.output.is_json:
            rows.append((shown, entry))
        else:
            _print_entry(shown, entry)

    for argument in arguments:
        if not argument.is_dir or options.directory:
            add(argument, argument.path)
            continue
        if len(arguments) > 1 and not options.recursive and not context.output.is_json:
            print(f"{clean(argument.path)}:")
        for entry in _iter_below(context, argument):
            add(entry, entry.path if options.recursive else entry.name)
    if context.output.is_json:
        context.output.print_document(
            [
                {"path": row.path, "name": row.name, "is_dir": row.is_dir, "size": row.size, "modified": row.modified}
                for _, row in rows
            ]
        )
    return Status.DONE


def _iter_below(context: Context, folder: RemoteEntry) -> Iterator[RemoteEntry]:
    client = context.client
    if context.options.recursive:
        yield from (make_entry(path, row) for path, row in client.walk(folder.path))
        return
    for row in client.iter_folder(folder.path, refresh=context.options.refresh):
        yield make_entry(posixpath.join(folder.path, row["name"]), row)


def _print_entry(shown: str, entry: RemoteEntry) -> None:
    size = "" if entry.is_dir else format_size(entry.size)
    time = entry.modified[:TIME_LENGTH].replace("T", " ")
    print(f"{size:>10}  {time}  {clean(shown)}{'/' if entry.is_dir and shown != '/' else ''}")


def make_folders(context: Context) -> int:
    """Create folders and their missing parents."""
    for path in context.options.paths:
        context.client.fs_mkdir(path=normalize(path))
    context.output.print_result("created", created=[normalize(path) for path in context.options.paths])
    return Status.DONE


def remove(context: Context) -> int:
    """Remove entries."""
    entries = list(expand(context.client, context.options.paths, is_literal=context.options.literal))
    for entry in entries:
        if entry.path == "/":
            raise ClientError("the root cannot be removed")
        if entry.is_dir and not context.options.recursive:
            raise ClientError(f"{entry.path} is a folder: --recursive removes it")
    for folder, names in _group(entries):
        context.client.fs_remove(dir=folder, names=names)
    unfinished = [entry.path for entry in entries if entry.is_dir and context.client.exists(entry.path)]
    removed = [entry.path for entry in entries if entry.path not in unfinished]
    text = f"removed: {len(removed)}" + (f", a task removes the rest of: {len(unfinished)}" if unfinished else "")
    context.output.print_result(text, removed=removed, unfinished=unfinished)
    return Status.DONE


def _group(entries: Sequence[RemoteEntry]) -> Iterator[tuple[str, list[str]]]:
    """Yield folders, each with the names of its entries, in parts of a bounded number."""
    folders: dict[str, list[str]] = {}
    for entry in entries:
        folders.setdefault(entry.folder, []).append(entry.name)
    for folder, names in folders.items():
        for start in range(0, len(names), MAX_NAMES_PER_REQUEST):
            yield folder, names[start : start + MAX_NAMES_PER_REQUEST]


def copy(context: Context) -> int:
    """Copy entries within the tree."""
    return _transfer(context, "copy")


def move(context: Context) -> int:
    """Move or rename entries within the tree."""
    return _transfer(context, "move")


def _transfer(context: Context, kind: str) -> int:
    client, options = context.client, context.options
    entries = list(expand(client, options.sources, is_literal=options.literal))
    target = normalize(options.target)
    existing = find_entry(client, target)
    is_folder = existing is not None and existing.is_dir
    if not is_folder and (len(entries) > 1 or options.target.endswith("/")):
        raise ClientError(f"{target} is not a folder", problem="NotFound")
    for entry in entries:
        if kind == "copy" and entry.is_dir and not options.recursive:
            raise ClientError(f"{entry.path} is a folder: --recursive copies it")
    if is_folder:
        tasks = [task for folder, names in _group(entries) for task in _start(context, kind, folder, names, target)]
    elif existing is not None and not options.force:
        raise ClientError(f"{target} exists: --force replaces it", problem="Exists")
    else:
        tasks = _transfer_to_name(context, kind, entries[0], target)
    if not options.no_wait:
        wait_for_tasks(context, kind, tasks)
    verb = {"copy": "copied", "move": "moved"}[kind]
    text = f"{verb}: {len(entries)}" if not tasks or not options.no_wait else "\n".join(tasks)
    context.output.print_result(text, tasks=tasks, **{verb: [entry.path for entry in entries]})
    return Status.DONE


def _start(context: Context, kind: str, folder: str, names: list[str], target: str) -> list[str]:
    operation = context.client.copy if kind == "copy" else context.client.move
    return operation(folder, names, target, overwrite=context.options.force)


def _transfer_to_name(context: Context, kind: str, entry: RemoteEntry, target: str) -> list[str]:
    """Copy or move an entry to another path, which is not that of a folder. Return the unfinished tasks."""
    client, (folder, name) = context.client, posixpath.split(target)
    if name == entry.name and folder != entry.folder:
        return _start(context, kind, entry.folder, [name], folder)
    if kind == "move" and folder == entry.folder:
        client.fs_rename(path=entry.path, name=name, overwrite=context.options.force)
        return []
    if kind == "copy" and not entry.is_dir:
        _copy_bytes(context, entry, target)
        return []
    if folder == entry.folder or find_entry(client, posixpath.join(folder, entry.name)) is not None:
        raise ClientError(f"{entry.path} cannot get another name on the way: use a folder without {entry.name}")
    wait_for_tasks(context, kind, _start(context, kind, entry.folder, [entry.name], folder))
    client.fs_rename(path=posixpath.join(folder, entry.name), name=name, overwrite=context.options.force)
    return []


def _copy_bytes(context: Context, entry: RemoteEntry, target: str) -> None:
    """Copy a file to another name. Its bytes pass through this program."""
    title = f"copy {entry.path}"
    with tempfile.SpooledTemporaryFile(MAX_SPOOLED_BYTES) as spool, context.output.open_bar(title, entry.size) as bar:
        with context.client.stream(entry.path) as response:
            for block in response.iter_bytes():
                spool.write(block)
                bar.update(len(block))
        spool.seek(0)
        upload(context.client, spool, target, overwrite=context.options.force)


def wait_for_tasks(context: Context, kind: str, tasks: Sequence[str]) -> None:
    """Wait for tasks and show their progress. Raise TaskFailed for the first that fails."""
    for number, task in enumerate(tasks, 1):
        title = f"{kind} {number}/{len(tasks)}" if len(tasks) > 1 else kind
        with context.output.open_bar(title, 100, "%") as bar:
            context.client.wait(kind, task, notify=make_notify(bar))
