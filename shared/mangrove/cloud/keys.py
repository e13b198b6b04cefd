"""The secrets with the keys of a stack."""

from __future__ import annotations

import secrets
from typing import Any

from botocore.exceptions import ClientError

from mangrove.core import aws
from mangrove.core.config import config
from mangrove.records.store.keys import KEY_BYTES, Key, derive_key, keyring


def make_missing_keys(has_records: bool) -> None:
    """Make the keys whose secrets are empty.

    A new stack gets random ones. The records and tokens of a stack that is older than these secrets have keys that are
    derived from the master key, which it keeps.
    """
    client = aws.create_client("secretsmanager")
    settings = config()
    for key, name in ((Key.INTEGRITY, settings.integrity_key_secret), (Key.TOKEN, settings.token_key_secret)):
        if not _has_value(client, name):
            value = _derive(key) if has_records else secrets.token_bytes(KEY_BYTES)
            client.put_secret_value(SecretId=name, SecretString=value.hex())
            keyring().put(key, value)


def _derive(key: Key) -> bytes:
    return derive_key(keyring().get(Key.ENCRYPTION), key.value)


def _has_value(client: Any, name: str) -> bool:
    try:
        return bool(client.get_secret_value(SecretId=name)["SecretString"])
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceNotFoundException":
            raise
        return False  # a secret that does not exist refuses its value later
