"""Aliyun OSS: a bucket."""

from __future__ import annotations

from mangrove.drivers.base import DriverConfig
from mangrove.drivers.clouds.powers import LinkingCloud, ObjectStore
from mangrove.drivers.options import Options, option


class OSSOptions(Options):
    root_folder_path: str = option("/", required=True)
    bucket: str = option(required=True)
    endpoint: str = option(required=True, help="https://oss-REGION.aliyuncs.com")
    access_key_id: str = option(required=True)
    access_key_secret: str = option(required=True, secret=True)
    security_token: str = option(secret=True)
    presign_endpoint: str = option(help="where links lead, when not to the endpoint")
    sign_url_expire: int = option(4)


class OSS(LinkingCloud, ObjectStore):
    name = "OSS"
    Options = OSSOptions
    config = DriverConfig(default_root="/", check_status=True, direct_lookup=True)
    options: OSSOptions
    scheme = "oss"
    place = ("endpoint", "bucket")
    has_etags = True
    reads_if_match = True
    names_downloads = True
