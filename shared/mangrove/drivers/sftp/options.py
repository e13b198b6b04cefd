"""The options of an SFTP storage."""

from __future__ import annotations

from mangrove.core.problems import StorageProblem
from mangrove.drivers.options import TrashOptions, option

PORT = 22


class SFTPOptions(TrashOptions):
    address: str = option(required=True)
    username: str = option(required=True)
    private_key: str = option(type="text", secret=True)
    password: str = option(secret=True)
    passphrase: str = option(secret=True)
    root_folder_path: str = option("/", required=True)
    ignore_symlink_error: bool = option(False)
    host_key: str = option(
        help=(
            "The server's public key or its SHA256 fingerprint. If empty, it is set at the first connection. "
            "Another key is then refused; to accept a new one, empty this field or enter its fingerprint."
        )
    )


def parse_root(text: str) -> bytes:
    """Return the folder to which paths are appended: `""` for the server's root; a relative one starts with `.`."""
    parts = [part for part in text.strip().split("/") if part not in ("", ".")]
    if "\0" in text:
        raise StorageProblem("the option root_folder_path has a NUL byte")
    start = "" if text.strip().startswith("/") else "."
    return "/".join([start, *parts]).encode()
