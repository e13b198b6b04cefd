"""The key by which a server is known again: pinned at the first connection, before anything secret is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import asyncssh

from mangrove.core.problems import Problem, StorageProblem, Unreachable
from mangrove.drivers.addresses import parse_address
from mangrove.drivers.base import DriverContext
from mangrove.drivers.sftp.errors import translate_errors
from mangrove.drivers.sftp.once import Once
from mangrove.drivers.sftp.options import PORT, SFTPOptions

_RSA = ("rsa-sha2-512", "rsa-sha2-256")
_ECDSA = ("ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521")
_EDWARDS = ("ssh-ed25519", "ssh-ed448")
_ALL = (*_EDWARDS, *_ECDSA, *_RSA)
PREFIX = "SHA256:"


def parse_host_key(text: str) -> asyncssh.SSHKey | str:
    """A public key as OpenSSH writes it, also as a line of known_hosts; or a fingerprint, as ssh-keygen writes it."""
    text = text.strip()
    if text.startswith(PREFIX):
        return text.rstrip("=")
    for line in (text, text.partition(" ")[2]):
        try:
            return asyncssh.import_public_key(line)
        except asyncssh.KeyImportError:
            continue
    raise StorageProblem("the option host_key is neither a public key nor a SHA256 fingerprint")


class HostKey:
    """The key that the server of one storage must have."""

    def __init__(self, options: SFTPOptions, context: DriverContext) -> None:
        self._options = options
        self._context = context
        self._found = Once(self._find)

    async def get(self) -> asyncssh.SSHKey:
        """The key; at the first use of all, whatever the server shows, which is stored before it is trusted.

        StorageProblem when the server shows none with the fingerprint that was pinned.
        """
        return await self._found.get()

    async def _find(self) -> asyncssh.SSHKey:
        text = self._options.host_key
        pinned = parse_host_key(text) if text.strip() else ""
        if isinstance(pinned, asyncssh.SSHKey):
            return pinned
        shown = await self._fetch(_ALL)
        if not pinned:
            await self._store(shown)
            return shown
        if shown.get_fingerprint() == pinned:
            return shown
        for algorithms in (_EDWARDS, _ECDSA, _RSA):  # a server may have a key of each kind
            try:
                other = await self._fetch(algorithms)
            except Unreachable:
                raise
            except StorageProblem:
                continue  # none of this kind
            if other.get_fingerprint() == pinned:
                return other
        raise _make_refusal(pinned, shown.get_fingerprint())

    async def check_unchanged(self) -> None:
        """StorageProblem that names both fingerprints when the server has another key by now."""
        pinned = (await self.get()).get_fingerprint()
        shown = (await self._fetch(_ALL)).get_fingerprint()
        if shown != pinned:
            raise _make_refusal(pinned, shown)

    async def _fetch(self, algorithms: Sequence[str]) -> asyncssh.SSHKey:
        host, port = parse_address(self._options.address, PORT)
        ask = partial(asyncssh.get_server_host_key, host, port, server_host_key_algs=list(algorithms), config=None)
        with translate_errors():
            try:
                key = await ask()
            except asyncssh.ConnectionLost:
                key = await ask()  # a server that is busy drops some of those who have not signed in
        if key is None:
            raise StorageProblem("the SSH server shows no key")
        return key

    async def _store(self, key: asyncssh.SSHKey) -> None:
        if self._context.save_options is None:
            return
        text = " ".join(key.export_public_key("openssh").decode().split()[:2])
        try:
            await self._context.save_options(replace(self._options, host_key=text))
        except Problem as problem:  # another process pinned it just now, or the records do not answer
            raise Unreachable(f"the server's key could not be stored: {problem.message}") from problem


def _make_refusal(pinned: str, shown: str) -> StorageProblem:
    return StorageProblem(
        f"the server's host key has changed: it was {pinned} and is {shown} now. Somebody may be in between; to accept "
        "the new key, enter its fingerprint as host_key, or empty that option"
    )
