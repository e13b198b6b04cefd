"""The secrets with the keys of a stack, and the key that signs links through CloudFront."""

from __future__ import annotations

import secrets
from uuid import uuid4

from botocore.exceptions import ClientError
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from mangrove.core.aws_calls import NOT_FOUND, SECRETS, ServiceClient
from mangrove.core.config import config
from mangrove.records.store.keys import KEY_BYTES, Key, derive_key, keyring

DOWNLOAD_KEY_BITS = 2048  # the size that CloudFront takes
PUBLIC_EXPONENT = 65537


def make_missing_keys(has_records: bool) -> None:
    """Write the integrity key into its secret, and make the token key if its secret is empty.

    The integrity key is derived from the master key. The token key of a new stack is random; that of a stack that is
    older than the secret is derived from the master key, so that its sessions continue.
    """
    client = ServiceClient(SECRETS)
    settings = config()
    integrity = keyring().get(Key.INTEGRITY).hex()
    if _read_value(client, settings.integrity_key_secret) != integrity:
        _write_value(client, settings.integrity_key_secret, integrity)
    if not _read_value(client, settings.token_key_secret):
        master = keyring().get(Key.ENCRYPTION)
        value = derive_key(master, Key.TOKEN.value) if has_records else secrets.token_bytes(KEY_BYTES)
        _write_value(client, settings.token_key_secret, value.hex())
        keyring().put(Key.TOKEN, value)


def make_download_key(secret: str) -> str:
    """Return the public half of the key for CloudFront, as PEM. A secret without a value gets a new private key.

    Raise ValueError if the secret has another value than a private key.
    """
    client = ServiceClient(SECRETS)
    text = _read_value(client, secret)
    if text:
        try:
            return _format_public(load_pem_private_key(text.encode(), None))
        except (ValueError, TypeError):
            raise ValueError("the secret of MANGROVE_DOWNLOAD_KEY_SECRET has no private key in PEM") from None
    key = rsa.generate_private_key(PUBLIC_EXPONENT, DOWNLOAD_KEY_BITS)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    _write_value(client, secret, private.decode())
    return _format_public(key)


def _format_public(key: object) -> str:
    """Raise ValueError for another kind of key than RSA."""
    if not isinstance(key, rsa.RSAPrivateKey):
        raise ValueError("it is no RSA key")
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def _read_value(client: ServiceClient, name: str) -> str:
    """Return the value of a secret, "" if it has none yet."""
    try:
        return str(client.call("GetSecretValue", {"SecretId": name})["SecretString"])
    except ClientError as error:
        if error.response["Error"]["Code"] != NOT_FOUND:
            raise
        return ""  # a secret that does not exist refuses its value later


def _write_value(client: ServiceClient, name: str, value: str) -> None:
    """Give a secret a new value. The token makes two attempts one version."""
    client.call("PutSecretValue", {"SecretId": name, "SecretString": value, "ClientRequestToken": str(uuid4())})
