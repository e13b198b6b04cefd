"""Google Cloud Storage: a bucket."""

from __future__ import annotations

import base64
from urllib.parse import quote

from mangrove.drivers.base import DriverConfig
from mangrove.drivers.clouds.powers import LinkingCloud, ObjectStore
from mangrove.drivers.options import Options, option


class GCSOptions(Options):
    root_folder_path: str = option("/", required=True)
    bucket: str = option(required=True)
    credential: str = option(type="text", help="the JSON key of a service account", secret=True)
    token: str = option(help="an access token, in place of the key", secret=True)
    endpoint: str = option()
    sign_url_expire: int = option(4)


class GCS(LinkingCloud, ObjectStore):
    name = "GCS"
    Options = GCSOptions
    config = DriverConfig(default_root="/", check_status=True, direct_lookup=True)
    options: GCSOptions
    scheme = "gcs"
    settings = (("disable_config_load", "true"), ("disable_vm_metadata", "true"))
    credentials = (("credential",), ("token",))
    place = ("endpoint", "bucket")
    has_etags = True

    def build_arguments(self) -> dict[str, str]:
        arguments = super().build_arguments()
        if "credential" in arguments:
            arguments["credential"] = base64.b64encode(arguments["credential"].encode()).decode()
        return arguments

    def has_link(self, key: str) -> bool:
        """opendal signs the address of a name as it is, without escapes: it fails, or is another file's."""
        return quote(key, safe="/-_.~") == key
