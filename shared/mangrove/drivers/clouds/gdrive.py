"""Google Drive."""

from __future__ import annotations

from mangrove.drivers.base import DriverConfig
from mangrove.drivers.clouds.powers import Drive
from mangrove.drivers.options import Options, option


class GoogleDriveOptions(Options):
    root_folder_path: str = option("/", required=True)
    refresh_token: str = option(secret=True)
    client_id: str = option()
    client_secret: str = option(secret=True)
    access_token: str = option(help="in place of the three above; it ends soon", secret=True)


class GoogleDrive(Drive):
    name = "GoogleDrive"
    Options = GoogleDriveOptions
    config = DriverConfig(only_proxy=True, default_root="/", check_status=True, direct_lookup=True)
    options: GoogleDriveOptions
    scheme = "gdrive"
    credentials = (("refresh_token", "client_id", "client_secret"), ("access_token",))
