"""Huawei OBS: a bucket."""

from __future__ import annotations

from mangrove.drivers.base import DriverConfig
from mangrove.drivers.clouds.powers import LinkingCloud, ObjectStore
from mangrove.drivers.options import Options, option


class OBSOptions(Options):
    root_folder_path: str = option("/", required=True)
    bucket: str = option(required=True)
    endpoint: str = option(required=True, help="https://obs.REGION.myhuaweicloud.com")
    access_key_id: str = option(required=True)
    secret_access_key: str = option(required=True, secret=True)
    sign_url_expire: int = option(4)


class OBS(LinkingCloud, ObjectStore):
    name = "OBS"
    Options = OBSOptions
    config = DriverConfig(default_root="/", check_status=True, direct_lookup=True)
    options: OBSOptions
    scheme = "obs"
    place = ("endpoint", "bucket")
    has_etags = True
    reads_if_match = True
