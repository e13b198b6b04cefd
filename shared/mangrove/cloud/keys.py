"""The secrets with the keys of a stack."""

from __future__ import annotations

import secrets
from uuid import uuid4

from botocore.exceptions import ClientError

from mangrove.core.aws_calls import NOT_FOUND, SECRETS, ServiceClient
from mangrove.core.config import config
from mangrove.records.store.keys import KEY_BYTES, Key, derive_key, keyring


def make_missing_keys(has_records: bool) -> None:
    """Write the integrity key into its secret, and make the token key if its secret is empty.

    The integrity key is derived from the master key. The token key of a new stack is random; that of a stack that is
    older than the secret is derived from the master key, so that its sessions continue.
    """
    client = ServiceClient(SECRETS)
    settings = config()
    integrity = keyring().get(Key.INTEGRITY).hex()
    if read_value(client, settings.integrity_key_secret) != integrity:
        write_value(client, settings.integrity_key_secret, integrity)
    if not read_value(client, settings.token_key_secret):
        master = keyring().get(Key.ENCRYPTION)
        value = derive_key(master, Key.TOKEN.value) if has_records else secrets.token_bytes(KEY_BYTES)
        write_value(client, settings.token_key_secret, value.hex())
        keyring().put(Key.TOKEN, value)


def read_value(client: ServiceClient, name: str) -> str:
    """Return the value of a secret, "" if it has none yet."""
    try:
        return str(client.call("GetSecretValue", {"SecretId": name})["SecretString"])
    except ClientError as error:
        if error.response["Error"]["Code"] != NOT_FOUND:
            raise
        return ""  # a secret that does not exist refuses its value later


def write_value(client: ServiceClient, name: str, value: str) -> None:
    """Give a secret a new value. The token makes two attempts one version."""
    client.call("PutSecretValue", {"SecretId": name, "SecretString": value, "ClientRequestToken": str(uuid4())})
