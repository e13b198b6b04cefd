"""The data directory of a service on one machine: its master key, and the one process that holds it."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path


class StartupError(Exception):
    """Why the service cannot start, in one line."""


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """The process that holds a data directory. `address` and `engine` are URLs, "" until the service listens."""

    pid: int
    address: str = ""
    engine: str = ""


class DataDirectory:
    """The data directory, held by one process at a time."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.key = data / "key"
        self._lock = data / "mangrove.lock"
        self._handle = -1

    def lock(self) -> None:
        """Make and lock the directory until this process ends.

        StartupError names the process that has it, or what is wrong with the directory.
        """
        try:
            self.data.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._create_key()
        except OSError as error:
            raise StartupError(f"cannot write to the data directory {self.data}: {error.strerror}") from None
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = self.read_holder()
            pid = "?" if holder is None else holder.pid
            address = f" ({holder.address})" if holder is not None and holder.address else ""
            raise StartupError(f"the data directory {self.data} is in use by process {pid}{address}") from None
        self.write_holder(ProcessInfo(os.getpid()))

    def read_holder(self) -> ProcessInfo | None:
        """What the process that has, or last had, the directory wrote; None when nothing readable is there."""
        try:
            return ProcessInfo(**json.loads(self._lock.read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def write_holder(self, info: ProcessInfo) -> None:
        """Let other processes know this one, which has the lock."""
        text = json.dumps({key: value for key, value in asdict(info).items() if value}).encode()
        os.pwrite(self._handle, text, 0)
        os.ftruncate(self._handle, len(text))

    def _create_key(self) -> None:
        """The master key, made once; a key file is never seen half written."""
        if self.key.exists():
            return
        part = self.data / f".key-{secrets.token_hex(8)}"
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(handle, secrets.token_bytes(32))
            os.fsync(handle)
            os.link(part, self.key)
        except FileExistsError:
            pass  # another process was first
        finally:
            os.close(handle)
            part.unlink()
