"""The key by which SFTP clients know this service again."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import asyncssh

NAME = "ssh_host_ed25519_key"


def read_host_key(folder: Path) -> asyncssh.SSHKey:
    """The key in a folder, made at the first call, whole or not at all; blocks."""
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / NAME
    if not path.exists():
        key = asyncssh.generate_private_key("ssh-ed25519")
        handle, part = tempfile.mkstemp(dir=folder)  # open to its owner alone
        with os.fdopen(handle, "wb") as file:
            file.write(key.export_private_key())
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    return asyncssh.read_private_key(path)
