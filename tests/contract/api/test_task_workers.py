"""The number of concurrent tasks of a kind follows the setting of that kind."""

from __future__ import annotations

from zipfile import ZipFile

import pytest

from mangrove.tasks.core.registry import KINDS
from tests.contract.api import fixtures
from tests.contract.api.task_client import TaskClient, wait_until
from tests.contract.api.transfer_client import TransferClient
from tests.support import origin
from tests.support.origin import Origin
from tests.support.service import Client

pytestmark = pytest.mark.usefixtures("allow_loopback")


@pytest.mark.parametrize("kind", ["upload", "copy", "move"])
def test_no_transfer_of_a_kind_begins_while_its_setting_is_0(
    admin: Client, transfers: TransferClient, kind: str
) -> None:
    with fixtures.settings(admin, **{KINDS[kind].workers: "0"}):
        paused = transfers.start(kind)
        other = "copy" if kind != "copy" else "upload"
        assert transfers.wait_for(other, transfers.start(other))["state"] == 2
        assert transfers.info(kind, paused)["state"] == 0
    assert transfers.wait_for(kind, paused)["state"] == 2


@pytest.mark.parametrize(
    ("kind", "first"),
    [
        ("offline_download", None),
        ("offline_download_transfer", "offline_download"),
        ("decompress", None),
        ("decompress_upload", "decompress"),
    ],
)
def test_no_other_work_of_a_kind_begins_while_its_setting_is_0(
    admin: Client, owner: TaskClient, web: Origin, kind: str, first: str | None
) -> None:
    def start(kind: str) -> str:
        if "decompress" in kind:
            with ZipFile(owner.disk / "a.zip", "w") as archive:
                archive.writestr("a.txt", "content")
            return owner.unpack("a.zip")[0]
        return owner.download(web.at("/b.txt", origin.file(b"content")))[0]

    def list_waiting() -> list[int]:
        return [row["state"] for row in owner.client.get(f"/openlist/api/task/{kind}/undone")["data"]]

    with fixtures.settings(admin, **{KINDS[kind].workers: "0"}):
        id = start(kind)
        if first is not None:
            assert owner.wait_for(first, id)["state"] == 2
        other = "decompress" if "download" in kind else "offline_download"
        assert owner.wait_for(other, start(other))["state"] == 2
        assert wait_until(list_waiting) == [0]
    assert [row["state"] for row in owner.wait_for_all(kind)] == [2]
