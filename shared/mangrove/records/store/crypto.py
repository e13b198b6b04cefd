"""The master key, keys derived from it for one purpose each, and sealing of secrets at rest."""

from __future__ import annotations

import secrets
from functools import cached_property

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from mangrove.core import aws, runtime
from mangrove.core.config import config
from mangrove.core.problems import Problem
from mangrove.core.telemetry import log_warning

KEY_BYTES = 32
NONCE_BYTES = 12


class DecryptionError(Problem):
    """A secret that does not open, and never will."""

    text = "a stored secret cannot be read: it was sealed with another key, or elsewhere"


class Keyring:
    """The master key, read when it is first needed, and the keys derived from it."""

    def __init__(self) -> None:
        self._master = b""
        self._derived: dict[str, bytes] = {}

    def derive(self, purpose: str) -> bytes:
        """32 bytes that belong to `purpose` alone."""
        key = self._derived.get(purpose)
        if key is None:
            self._master = self._master or _read_master_key()
            hkdf = HKDF(SHA256(), KEY_BYTES, salt=None, info=purpose.encode())
            key = self._derived[purpose] = hkdf.derive(self._master)
        return key

    @cached_property
    def cipher(self) -> AESGCM:
        """What seals secrets at rest."""
        return AESGCM(self.derive("records"))


def _read_master_key() -> bytes:
    """From the 0600 file on a machine, from Secrets Manager in the cloud; Problem."""
    settings = config()
    if settings.key_file is not None:
        try:
            return settings.key_file.read_bytes()
        except OSError as error:
            log_warning("the master key cannot be read", reason=error.strerror)
            raise Problem("the master key cannot be read") from None
    if settings.key_secret:
        return _read_secret(settings.key_secret)
    raise Problem("no master key: set MANGROVE_KEY_FILE or MANGROVE_KEY_SECRET")


def _read_secret(name: str) -> bytes:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        found = aws.create_client("secretsmanager").get_secret_value(SecretId=name)
        return str(found["SecretString"]).encode()
    except (BotoCoreError, ClientError, KeyError) as error:
        log_warning("the master key cannot be read", secret=name, reason=str(error))
        raise Problem("the master key cannot be read") from None


def derive(purpose: str) -> bytes:
    """32 bytes that belong to `purpose` alone."""
    return runtime.get(Keyring).derive(purpose)


def seal(text: str, place: bytes) -> bytes:
    """`text`, encrypted and authenticated together with the place it is kept in: nonce, then AES-GCM."""
    nonce = secrets.token_bytes(NONCE_BYTES)
    return nonce + _get_cipher().encrypt(nonce, text.encode(), place)


def unseal(sealed: bytes, place: bytes) -> str:
    """The text that was sealed; Problem when the key or the place is another one."""
    try:
        return _get_cipher().decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], place).decode()
    except (InvalidTag, ValueError):  # ValueError: too short for a nonce
        raise DecryptionError from None


def _get_cipher() -> AESGCM:
    return runtime.get(Keyring).cipher
