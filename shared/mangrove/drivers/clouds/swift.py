"""OpenStack Swift: a container."""

from __future__ import annotations

from typing import Literal

from mangrove.drivers.base import DriverConfig
from mangrove.drivers.clouds.powers import LinkingCloud, ObjectStore
from mangrove.drivers.options import Options, option


class SwiftOptions(Options):
    root_folder_path: str = option("/", required=True)
    container: str = option(required=True)
    endpoint: str = option(required=True, help="https://HOST/v1/AUTH_ACCOUNT")
    token: str = option(required=True, secret=True)
    temp_url_key: str = option(help="links need it", secret=True)
    temp_url_hash_algorithm: Literal["sha256", "sha512", "sha1", ""] = option("sha256")
    sign_url_expire: int = option(4)


class Swift(LinkingCloud, ObjectStore):
    """The validator of a large file is another one in listings than elsewhere: it is not used."""

    name = "Swift"
    Options = SwiftOptions
    config = DriverConfig(default_root="/", check_status=True, direct_lookup=True)
    options: SwiftOptions
    scheme = "swift"
    place = ("endpoint", "container")
