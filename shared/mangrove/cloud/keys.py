"""The secrets with the keys of a stack."""

from __future__ import annotations

import secrets
from typing import Any

from botocore.exceptions import ClientError

from mangrove.core import aws
from mangrove.core.config import config
from mangrove.records.store.keys import KEY_BYTES, Key, derive_key, keyring


def make_missing_keys(has_records: bool) -> None:
    """Write the integrity key into its secret, and make the token key if its secret is empty.

    The integrity key is derived from the master key. The token key of a new stack is random; that of a stack that is
    older than the secret is derived from the master key, so that its sessions continue.
    """
    client = aws.create_client("secretsmanager")
    settings = config()
    integrity = keyring().get(Key.INTEGRITY).hex()
    if read_value(client, settings.integrity_key_secret) != integrity:
        client.put_secret_value(SecretId=settings.integrity_key_secret, SecretString=integrity)
    if not read_value(client, settings.token_key_secret):
        master = keyring().get(Key.ENCRYPTION)
        value = derive_key(master, Key.TOKEN.value) if has_records else secrets.token_bytes(KEY_BYTES)
        client.put_secret_value(SecretId=settings.token_key_secret, SecretString=value.hex())
        keyring().put(Key.TOKEN, value)


def read_value(client: Any, name: str) -> str:
    """Return the value of a secret, "" if it has none yet."""
    try:
        return str(client.get_secret_value(SecretId=name)["SecretString"])
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceNotFoundException":
            raise
        return ""  # a secret that does not exist refuses its value later
