"""The three keys of a deployment: for MACs, for tokens, for encryption.

A process reads only the keys that it uses, so that in the cloud each function can have the rights of its own keys.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property

from botocore.exceptions import BotoCoreError, ClientError
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from mangrove.core import runtime
from mangrove.core.aws_calls import SECRETS, ServiceClient
from mangrove.core.config import config
from mangrove.core.problems import Problem
from mangrove.core.telemetry import log_warning

KEY_BYTES = 32


class Key(StrEnum):
    """The keys. The value is the purpose for which a key is derived from the master key, if it has no secret of its
    own.

    Links are signed with keys that are derived from the key of encryption: a process that cannot read the options of
    a storage cannot make links to its files.
    """

    INTEGRITY = "record integrity"
    """The key of the MACs of records. It has a secret for processes without the master key."""
    TOKEN = "jwt"
    """The key that signs the tokens of sessions."""
    ENCRYPTION = ""
    """The master key."""


class Keyring:
    """The keys of this process, each read on first use, and the keys derived from them."""

    def __init__(self) -> None:
        self._keys: dict[Key, bytes] = {}
        self._derived: dict[tuple[Key, str], bytes] = {}

    def get(self, key: Key) -> bytes:
        """Return a key itself."""
        if key not in self._keys:
            self._keys[key] = self._find(key)
        return self._keys[key]

    def _find(self, key: Key) -> bytes:
        """Derive the integrity key if this process has the secret of the master key: that saves a call at each start.
        Read any other key.
        """
        settings = config()
        if key is Key.INTEGRITY and settings.key_file is None and settings.encryption_key_secret:
            return derive_key(self.get(Key.ENCRYPTION), key.value)
        return _read(key)

    def put(self, key: Key, value: bytes) -> None:
        """Keep a key that was made now."""
        self._keys[key] = value

    def derive(self, key: Key, purpose: str) -> bytes:
        """Return a key for one purpose."""
        derived = self._derived.get((key, purpose))
        if derived is None:
            derived = self._derived[key, purpose] = derive_key(self.get(key), purpose)
        return derived

    @cached_property
    def cipher(self) -> AESGCM:
        """The cipher for secrets in records."""
        return AESGCM(self.derive(Key.ENCRYPTION, "records"))


def derive_key(key: bytes, purpose: str) -> bytes:
    """Derive a key of KEY_BYTES from another by HKDF."""
    return HKDF(SHA256(), KEY_BYTES, salt=None, info=purpose.encode()).derive(key)


def _read(key: Key) -> bytes:
    """Read a key: from its secret in the cloud, or from the file of the master key (mode 0600)."""
    settings = config()
    if settings.key_file is not None:
        master = _read_file()
        return derive_key(master, key.value) if key.value else master
    names = {
        Key.INTEGRITY: settings.integrity_key_secret,
        Key.TOKEN: settings.token_key_secret,
        Key.ENCRYPTION: settings.encryption_key_secret,
    }
    if names[key]:
        return decode_secret(key, _read_secret(key, names[key]))
    raise Problem(f"no {key.name.lower()} key: set MANGROVE_KEY_FILE or MANGROVE_{key.name}_KEY_SECRET")


def decode_secret(key: Key, text: str) -> bytes:
    """Return the key in the text of its secret: hexadecimal, but for the master key, which is any text."""
    if key is Key.ENCRYPTION:
        return text.encode()
    try:
        value = bytes.fromhex(text)
    except ValueError:
        value = b""
    if len(value) != KEY_BYTES:
        raise Problem(f"the secret of the {key.name.lower()} key does not have {KEY_BYTES} bytes in hexadecimal")
    return value


def _read_file() -> bytes:
    path = config().key_file
    assert path is not None
    try:
        return path.read_bytes()
    except OSError as error:
        log_warning("the master key cannot be read", reason=error.strerror)
        raise Problem("the master key cannot be read") from None


def _read_secret(key: Key, name: str) -> str:
    try:
        return str(ServiceClient(SECRETS).call("GetSecretValue", {"SecretId": name})["SecretString"])
    except (BotoCoreError, ClientError, KeyError) as error:
        log_warning(f"the {key.name.lower()} key cannot be read", secret=name, reason=str(error))
        raise Problem(f"the {key.name.lower()} key cannot be read") from None


def keyring() -> Keyring:
    """Return the keys of this process."""
    return runtime.get(Keyring)
