"""The options of an FTP storage."""

from __future__ import annotations

import codecs

from mangrove.core.problems import StorageProblem
from mangrove.drivers.connections import Address, parse_address
from mangrove.drivers.options import TrashOptions, option

PORT = 21
ASCII = bytes(range(0x20, 0x7F)).decode()


class FTPOptions(TrashOptions):
    address: str = option(required=True)
    encoding: str = option(required=True)
    username: str = option(required=True)
    password: str = option(required=True, secret=True)
    cwd_list: bool = option(False, help="Enter a folder before listing it.")
    root_folder_path: str = option("/", required=True)
    explicit_tls: bool = option(False, help="Encrypt the connections with explicit TLS (AUTH TLS).")
    tls_insecure_skip_verify: bool = option(
        False, help="Accept any certificate of the server. The connection can then be intercepted."
    )


def parse_server(text: str) -> Address:
    """Return the server of an address, which may start with `ftp://`."""
    return parse_address(text.strip().removeprefix("ftp://").rstrip("/"), PORT)


def parse_encoding(name: str) -> str:
    """Return the charset of a name, UTF-8 for an empty one. It has to encode ASCII unchanged, as commands do."""
    try:
        charset = codecs.lookup(name.strip() or "utf-8").name
        if ASCII.encode(charset) == ASCII.encode():
            return charset
    except (LookupError, ValueError):  # ValueError: a NUL in the name, or a charset that lacks letters
        pass
    raise StorageProblem(f"encoding {name[:40]!r} is not a charset that FTP can use")
