"""The services of opendal that are offered as drivers, with one declaration each."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal
from urllib.parse import quote

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryChanged
from mangrove.drivers.base import DriverProperties, Entry
from mangrove.drivers.capabilities import NO_TRASH
from mangrove.drivers.clouds.driver import Cloud
from mangrove.drivers.clouds.errors import translate_errors
from mangrove.drivers.clouds.kinds import Drive, LinkingCloud, ObjectStore, WritableCloud
from mangrove.drivers.options import Options, moving_trash_option, option

IF_MATCH = {"has_etags": True, "reads_if_match": True}
NO_CONFIG_FILE = (("disable_config_load", "true"),)
TOKENS = (("refresh_token", "client_id", "client_secret"), ("access_token",))


def make_service(
    name: str, scheme: str, bases: Sequence[type[Cloud]], options: Mapping[str, Any], **facts: Any
) -> type[Cloud]:
    """Return the driver of a service.

    `options` are the fields of its form after the root folder: a string, or a pair of a type and a field. `facts` are
    attributes of `Cloud`.
    """
    capabilities = bases[-1].capabilities
    if capabilities.move:
        options = {**options, "trash_days": (int, moving_trash_option())}
    kinds = {field: declared[0] if isinstance(declared, tuple) else str for field, declared in options.items()}
    fields = {field: declared[1] if isinstance(declared, tuple) else declared for field, declared in options.items()}
    form = type(
        f"{name}Options",
        (Options,),
        {
            "__module__": __name__,
            "__annotations__": {"root_folder_path": str, **kinds},
            "root_folder_path": option("/", required=True),
            **fields,
        },
    )
    has_links = any(issubclass(base, LinkingCloud) for base in bases)
    config = DriverProperties(
        only_proxy=not has_links,
        default_root="/",
        alert="" if capabilities.move else NO_TRASH,
        check_status=True,
        direct_lookup=True,
    )
    body = {
        "__module__": __name__, "name": name, "Options": form, "config": config, "scheme": scheme,
        "capabilities": replace(capabilities, link=has_links), **facts,
    }  # fmt: skip
    return type(name, tuple(bases), body)


class _AzureBlob(ObjectStore):
    """Azure without links: an address signed by opendal also allows writing and removing."""

    capabilities = replace(ObjectStore.capabilities, remove_unchanged=True)

    async def remove_unchanged(self, path: TreePath, entry: Entry) -> None:
        condition = self.make_condition(entry)
        try:
            with translate_errors():
                await self.quick.delete(self.get_key(path), **condition)
        except EntryChanged:
            if await self.is_file(path):
                raise
        await self.keep_folder(path.parent)


class _GCS(LinkingCloud, ObjectStore):
    capabilities = replace(ObjectStore.capabilities, link=True)

    def build_arguments(self) -> dict[str, str]:
        arguments = super().build_arguments()
        if "credential" in arguments:
            arguments["credential"] = base64.b64encode(arguments["credential"].encode()).decode()
        return arguments

    def has_link(self, key: str) -> bool:
        """False for a name that opendal signs without the required escapes."""
        return quote(key, safe="/-_.~") == key


def _line(**facts: Any) -> Any:
    return option(required=True, **facts)


def _secret(**facts: Any) -> Any:
    return option(secret=True, **facts)


def _endpoint(help: str = "") -> Any:
    return option(required=True, help=help)


def _hours() -> Any:
    """Return the option that limits the life of links."""
    return int, option(4)


def _tokens() -> dict[str, Any]:
    """Return the options of a drive to which a person has signed in."""
    return {
        "refresh_token": _secret(),
        "client_id": option(),
        "client_secret": _secret(),
        "access_token": _secret(help="Instead of the three options above. It expires soon."),
    }


STORE = (LinkingCloud, ObjectStore)
BUCKET = ("endpoint", "bucket")

AliyunDrive = make_service(
    "AliyunDrive",
    "aliyun-drive",
    [Drive],
    {"drive_type": (Literal["default", "backup", "resource", ""], option("default", required=True)), **_tokens()},
    credentials=TOKENS,
)
AzureBlob = make_service(
    "AzureBlob",
    "azblob",
    [_AzureBlob],
    {
        "container": _line(),
        "endpoint": _endpoint("https://ACCOUNT.blob.core.windows.net"),
        "account_name": option(),
        "account_key": _secret(),
        "sas_token": _secret(help="Instead of the account's key."),
    },
    credentials=(("account_name", "account_key"), ("sas_token",)),
    location_options=("endpoint", "container"),
    deletes_if_match=True,
    **IF_MATCH,
)
B2 = make_service(  # without links: a signature is valid for every file whose name starts with the file's
    "B2",
    "b2",
    [ObjectStore],
    {
        "bucket": _line(),
        "bucket_id": _line(),
        "application_key_id": _line(),
        "application_key": _line(secret=True),
    },
    location_options=("bucket_id",),
)
COS = make_service(
    "COS",
    "cos",
    STORE,
    {
        "bucket": _line(),
        "endpoint": _endpoint("https://cos.REGION.myqcloud.com"),
        "secret_id": _line(),
        "secret_key": _line(secret=True),
        "security_token": _secret(),
        "sign_url_expire": _hours(),
    },
    settings=NO_CONFIG_FILE,
    location_options=BUCKET,
    **IF_MATCH,
)
Dropbox = make_service("Dropbox", "dropbox", [Drive], _tokens(), credentials=TOKENS)
GCS = make_service(
    "GCS",
    "gcs",
    [_GCS],
    {
        "bucket": _line(),
        "credential": _secret(type="text", help="The JSON key of a service account."),
        "token": _secret(help="An access token, instead of the key."),
        "endpoint": option(),
        "sign_url_expire": _hours(),
    },
    settings=(*NO_CONFIG_FILE, ("disable_vm_metadata", "true")),
    credentials=(("credential",), ("token",)),
    location_options=BUCKET,
    has_etags=True,
)
GoogleDrive = make_service("GoogleDrive", "gdrive", [Drive], _tokens(), credentials=TOKENS)
OBS = make_service(
    "OBS",
    "obs",
    STORE,
    {
        "bucket": _line(),
        "endpoint": _endpoint("https://obs.REGION.myhuaweicloud.com"),
        "access_key_id": _line(),
        "secret_access_key": _line(secret=True),
        "sign_url_expire": _hours(),
    },
    location_options=BUCKET,
    **IF_MATCH,
)
OneDrive = make_service("OneDrive", "onedrive", [Drive], _tokens(), credentials=TOKENS)
OSS = make_service(
    "OSS",
    "oss",
    STORE,
    {
        "bucket": _line(),
        "endpoint": _endpoint("https://oss-REGION.aliyuncs.com"),
        "access_key_id": _line(),
        "access_key_secret": _line(secret=True),
        "security_token": _secret(),
        "presign_endpoint": option(help="Host of links, if it is not the endpoint."),
        "sign_url_expire": _hours(),
    },
    location_options=BUCKET,
    names_downloads=True,
    **IF_MATCH,
)
Seafile = make_service(
    "Seafile",
    "seafile",
    [WritableCloud],
    {"endpoint": _endpoint(), "repo_name": _line(), "username": _line(), "password": _line(secret=True)},
    location_options=("endpoint", "username", "repo_name"),
)
Swift = make_service(  # without etags: that of a large file differs between listings and other answers
    "Swift",
    "swift",
    STORE,
    {
        "container": _line(),
        "endpoint": _endpoint("https://HOST/v1/AUTH_ACCOUNT"),
        "token": _line(secret=True),
        "temp_url_key": _secret(help="Required for links."),
        "temp_url_hash_algorithm": (Literal["sha256", "sha512", "sha1", ""], option("sha256")),
        "sign_url_expire": _hours(),
    },
    location_options=("endpoint", "container"),
)
TOS = make_service(
    "TOS",
    "tos",
    STORE,
    {
        "bucket": _line(),
        "region": _line(),
        "endpoint": _endpoint("https://tos-REGION.volces.com"),
        "access_key_id": _line(),
        "secret_access_key": _line(secret=True),
        "security_token": _secret(),
        "sign_url_expire": _hours(),
    },
    settings=NO_CONFIG_FILE,
    location_options=("endpoint", "region", "bucket"),
    names_downloads=True,
    **IF_MATCH,
)
YandexDisk = make_service("YandexDisk", "yandex-disk", [Drive], {"access_token": _line(secret=True)})
