"""What a user proves with who they are: a private key, else a password."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import asyncssh

from mangrove.core.problems import StorageProblem
from mangrove.drivers.sftp.options import SFTPOptions

_OPENSSH = "BEGIN OPENSSH PRIVATE KEY"


@dataclass(frozen=True, slots=True)
class Credentials:
    """A username with a private key or, without one, a password."""

    username: str
    key: asyncssh.SSHKey | None
    password: str


async def read_credentials(options: SFTPOptions) -> Credentials:
    """The credentials of a storage; StorageProblem when the private key cannot be read. A key wins over a password."""
    if not options.username:
        raise StorageProblem("the option username is empty")
    if not options.private_key.strip():
        return Credentials(options.username, None, options.password)
    key = await asyncio.to_thread(_read_key, options.private_key, options.passphrase)  # decryption is slow on purpose
    return Credentials(options.username, key, "")


def _read_key(text: str, passphrase: str) -> asyncssh.SSHKey:
    text = text.replace("\r\n", "\n").strip() + "\n"
    try:
        return asyncssh.import_private_key(text, passphrase or None)
    except asyncssh.KeyEncryptionError:
        if _OPENSSH in text and find_spec("bcrypt") is None:
            raise StorageProblem(
                "a private key with a passphrase in OpenSSH's own format cannot be read here, since the package bcrypt "
                "is missing; `ssh-keygen -p -m PKCS8` converts it"
            ) from None
        raise StorageProblem("the passphrase does not open the private key") from None
    except asyncssh.KeyImportError:
        hint = ", or the passphrase does not open it" if passphrase else ", or a passphrase is missing"
        raise StorageProblem(f"the private key cannot be read: its form is not known{hint}") from None


class Client(asyncssh.SSHClient):
    """Answers what a server asks interactively: one question that is not echoed is the one for the password."""

    def __init__(self, password: str) -> None:
        self._password = password
        self._is_asked = False

    def kbdint_auth_requested(self) -> str | None:
        if not self._password or self._is_asked:
            return None
        self._is_asked = True
        return ""

    def kbdint_challenge_received(
        self, name: str, instructions: str, lang: str, prompts: Sequence[tuple[str, bool]]
    ) -> list[str] | None:
        if not prompts:
            return []
        return [self._password] if len(prompts) == 1 and not prompts[0][1] else None
