"""Crypt's options, as its form shows them."""

from __future__ import annotations

import re
from typing import Literal

from mangrove.core.problems import StorageProblem
from mangrove.drivers.options import Options, option

_SUFFIX = re.compile(r"[.][A-Za-z0-9_-]{2,}")


class CryptOptions(Options):
    filename_encryption: Literal["off", "standard", "obfuscate", ""] = option("off", required=True)
    directory_name_encryption: Literal["false", "true", ""] = option("false", required=True)
    remote_path: str = option(required=True, help="The folder of the tree that contains the encrypted files.")
    password: str = option(required=True, help="The main password.", secret=True)
    salt: str = option(help="A second password; optional, but recommended.", secret=True)
    encrypted_suffix: str = option(
        ".bin", required=True, help="Suffix of encrypted files. Change it only to match existing files."
    )
    filename_encoding: Literal["base64", "base32", "base32768", ""] = option(
        "base64", required=True, help="Encoding of encrypted names. Change it only to match existing files."
    )
    thumbnail: bool = option(False, required=True, help="Show thumbnails that exist in the folder .thumbnails.")
    show_hidden: bool = option(True, help="Show hidden files and folders.")

    def check(self) -> None:
        """Raise StorageProblem for values that no storage can have."""
        if not self.remote_path:
            raise StorageProblem("remote_path is required")
        if _SUFFIX.fullmatch(self.encrypted_suffix) is None:
            raise StorageProblem("EncryptedSuffix is Illegal")
