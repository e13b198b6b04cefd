"""The tokens that `mangrove login` stores: a file that only its owner can read."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

from mangrove.client import ClientError

MAX_FILE_BYTES = 1 << 20


def find_file() -> Path:
    """Return the path of the file."""
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "mangrove" / "tokens.json"


def read(address: str) -> str:
    """Return the token for an address, "" if there is none. Raise ClientError for a file that others can read."""
    return _read_all().get(address.rstrip("/"), "")


def write(address: str, token: str) -> Path:
    """Store the token for an address; "" removes it. Return the file."""
    tokens = _read_all()
    tokens.pop(address.rstrip("/"), None)
    if token:
        tokens[address.rstrip("/")] = token
    file = find_file()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}.{os.getpid()}")
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w") as stream:
        json.dump(tokens, stream, indent=2)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(part, file)
    return file


def _read_all() -> dict[str, str]:
    file = find_file()
    try:
        status = file.stat()
        if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise ClientError(f"other accounts can read {file}: run `chmod 600 {file}`")
        if status.st_size > MAX_FILE_BYTES:
            raise ClientError(f"{file} is too large")
        tokens = json.loads(file.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ClientError(f"cannot read {file}: {error}") from None
    if not isinstance(tokens, dict) or not all(isinstance(token, str) for token in tokens.values()):
        raise ClientError(f"{file} is not a file of tokens")
    return tokens
