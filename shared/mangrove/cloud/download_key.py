"""The key that signs links through CloudFront: the set-up makes it, CloudFront gets its public half."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from mangrove.cloud.keys import read_value, write_value
from mangrove.core.aws_calls import SECRETS, ServiceClient

KEY_BITS = 2048  # the size that CloudFront takes
PUBLIC_EXPONENT = 65537


def make_download_key(secret: str) -> str:
    """Return the public key as PEM. A secret without a value gets a new private key.

    Raise ValueError if the secret has another value than a private key.
    """
    client = ServiceClient(SECRETS)
    text = read_value(client, secret)
    if text:
        try:
            return _format_public(load_pem_private_key(text.encode(), None))
        except (ValueError, TypeError):
            raise ValueError("the secret of MANGROVE_DOWNLOAD_KEY_SECRET has no private key in PEM") from None
    key = rsa.generate_private_key(PUBLIC_EXPONENT, KEY_BITS)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    write_value(client, secret, private.decode())
    return _format_public(key)


def _format_public(key: object) -> str:
    """Raise ValueError for another kind of key than RSA."""
    if not isinstance(key, rsa.RSAPrivateKey):
        raise ValueError("it is no RSA key")
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
