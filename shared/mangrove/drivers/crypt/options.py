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
    remote_path: str = option(required=True, help="This is where the encrypted data stores")
    password: str = option(required=True, help="the main password", secret=True)
    salt: str = option(help="A second password; not required, but better to have one", secret=True)
    encrypted_suffix: str = option(
        ".bin", required=True, help="for advanced user only! encrypted files will have this suffix"
    )
    filename_encoding: Literal["base64", "base32", "base32768", ""] = option(
        "base64", required=True, help="for advanced user only!"
    )
    thumbnail: bool = option(False, required=True, help="enable thumbnail which pre-generated under .thumbnails folder")
    show_hidden: bool = option(True, help="show hidden directories and files")

    def check(self) -> None:
        """StorageProblem for values that no storage can have."""
        if not self.remote_path:
            raise StorageProblem("remote_path is required")
        if _SUFFIX.fullmatch(self.encrypted_suffix) is None:
            raise StorageProblem("EncryptedSuffix is Illegal")
