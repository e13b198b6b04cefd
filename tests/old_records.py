"""Records as version 1 of them had them: seals that open anywhere, and no MAC."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import boto3
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from mangrove.records.store.endpoints import Endpoint, use_socket

SEALED = {"users": ("password_hash", "otp_secret"), "metas": ("password",), "settings": ("value",)}
SEALED |= {"storages": ("addition",), "tasks": ("facts",), "sshkeys": ()}
NEW = ("mac", "sealed_path")


def make_old(endpoint: Endpoint, master: bytes, only: tuple[str, ...] = tuple(SEALED)) -> None:
    """Rewrite the records of an engine as version 1 had them; they are those of this program, open."""
    from mangrove.records import metas, settings, storages
    from mangrove.records.accounts import sshkeys, users
    from mangrove.records.tasks import model as tasks

    models = {
        "users": users.UserRecord, "metas": metas.MetaRecord, "settings": settings.SettingRecord,
        "storages": storages.StorageRecord, "sshkeys": sshkeys.SshKeyRecord, "tasks": tasks.TaskRecord,
    }  # fmt: skip
    client = boto3.client("dynamodb", endpoint_url=endpoint.url)
    use_socket(client, endpoint.socket_path)
    for kind in only:
        for item in client.scan(TableName=f"mangrove-{kind}")["Items"]:
            record = models[kind].from_raw_data(item)  # type: ignore[attr-defined]
            python_names = {attribute.attr_name: name for name, attribute in record.get_attributes().items()}
            sealed = {name: {"B": _seal(master, getattr(record, python_names[name]))} for name in SEALED[kind]}
            old = {name: value for name, value in {**item, **sealed}.items() if name not in NEW}
            if kind == "tasks":
                old = unkey(old)
            client.put_item(TableName=f"mangrove-{kind}", Item=old)
    if "users" in only:
        _drop_looks(client)
    client.delete_item(TableName="mangrove-counters", Key={"key": {"S": "schema"}})


def make_version_2(endpoint: str) -> None:
    """Rewrite the records of an engine as version 2 had them."""
    client = boto3.client("dynamodb", endpoint_url=endpoint)
    for item in client.scan(TableName="mangrove-tasks")["Items"]:
        client.put_item(TableName="mangrove-tasks", Item=unkey(item))
    _drop_looks(client)


def unkey(task: dict[str, Any]) -> dict[str, Any]:
    """A task with the keys that it had before version 3."""
    created = int(float(task["created"]["N"]) * 1000)
    keys = {"shelf": {"S": task["shelf"]["S"].partition("#")[2]}, "ordered": {"S": f"{created:015d}#{task['id']['S']}"}}
    return {name: value for name, value in task.items() if name not in ("spread", "expires")} | keys


def _drop_looks(client: Any) -> None:
    for item in client.scan(TableName="mangrove-names")["Items"]:
        if item["name"]["S"].startswith("looks#"):
            client.delete_item(TableName="mangrove-names", Key={"name": item["name"]})


def make_examples(master: bytes) -> dict[str, dict[str, Any]]:
    """A record of version 1 for each kind, by kind."""
    secret, number, text = {"B": _seal(master, "{}")}, {"N": "900"}, {"S": "x"}
    times = {name: {"S": "2026-01-01T00:00:00.000000+0000"} for name in ("added", "last_used", "modified")}
    texts = {name: text for name in ("title", "name", "text", "fingerprint")}
    numbered = {"id": number, "version": {"N": "1"}}
    return {
        "users": numbered | {"username": text, "password_hash": secret, "otp_secret": secret},
        "metas": numbered | {"path": {"S": "/old"}, "password": secret},
        "storages": numbered | times | {"mount_path": {"S": "/old"}, "driver": {"S": "Virtual"}, "addition": secret},
        "settings": {"key": {"S": "old"}, "value": secret},
        "sshkeys": numbered | times | texts | {"user_id": number},
        "tasks": {
            "id": text, "shelf": {"S": "copy#done"}, "ordered": {"S": "0#x"}, "kind": {"S": "copy"}, "owner": number,
            "shown": {"S": "{}"}, "facts": secret, "created": {"N": "1"},
        },
    }  # fmt: skip


def _seal(master: bytes, text: str) -> bytes:
    key = HKDF(SHA256(), 32, salt=None, info=b"records").derive(master)
    nonce = os.urandom(12)
    return nonce + AESGCM(key).encrypt(nonce, text.encode(), None)


def read_items(endpoint: str, kind: str) -> list[dict[str, Any]]:
    """The records of a kind as the engine has them."""
    client = boto3.client("dynamodb", endpoint_url=endpoint)
    items: list[dict[str, Any]] = client.scan(TableName=f"mangrove-{kind}")["Items"]
    return items


def read_master() -> bytes:
    """The master key of this process."""
    return Path(os.environ["MANGROVE_KEY_FILE"]).read_bytes()
