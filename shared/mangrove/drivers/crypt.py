"""Crypt: the form of a storage that keeps another one's files encrypted."""

from __future__ import annotations

from typing import Literal

from mangrove.drivers.base import DriverConfig, Options, option
from mangrove.drivers.unavailable import Pending


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


class Crypt(Pending):
    name = "Crypt"
    Options = CryptOptions
    config = DriverConfig(only_proxy=True, no_cache=True, default_root="/", check_status=True, direct_lookup=True)
