"""Azure Blob Storage: a container of an account."""

from __future__ import annotations

from mangrove.core.paths import TreePath
from mangrove.core.problems import Changed
from mangrove.drivers.base import DriverConfig, Entry
from mangrove.drivers.clouds.errors import translate_errors
from mangrove.drivers.clouds.powers import ObjectStore
from mangrove.drivers.options import Options, option


class AzureBlobOptions(Options):
    root_folder_path: str = option("/", required=True)
    container: str = option(required=True)
    endpoint: str = option(required=True, help="https://ACCOUNT.blob.core.windows.net")
    account_name: str = option()
    account_key: str = option(secret=True)
    sas_token: str = option(help="in place of the account's key", secret=True)


class AzureBlob(ObjectStore):
    """Without links: what opendal signs allows writing and removing as well."""

    name = "AzureBlob"
    Options = AzureBlobOptions
    config = DriverConfig(only_proxy=True, default_root="/", check_status=True, direct_lookup=True)
    options: AzureBlobOptions
    scheme = "azblob"
    credentials = (("account_name", "account_key"), ("sas_token",))
    place = ("endpoint", "container")
    has_etags = True
    reads_if_match = True
    deletes_if_match = True

    async def remove_unchanged(self, path: TreePath, entry: Entry) -> None:
        condition = self.make_condition(entry)
        try:
            with translate_errors():
                await self.quick.delete(self.get_key(path), **condition)
        except Changed:
            if await self.is_file(path):
                raise
        await self.keep_folder(path.parent)
