"""qBittorrent's answers as this service reads them, given by a server of the tests' own; tests/protocol has the real
one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from mangrove.core import runtime
from mangrove.core.problems import Problem
from mangrove.core.runtime import Runtime
from mangrove.net.addresses import AddressPolicy
from mangrove.tools.base import DownloadStatus
from mangrove.tools.qbittorrent import SESSIONS, QBittorrent
from tests.support import origin
from tests.support.origin import Origin, Request

TAG = "mangrove-x"


class WebUi:
    """A Web UI with one torrent, `row`; sessions end when `sid` changes."""

    def __init__(self, web: Origin) -> None:
        self.row: dict[str, Any] = {"tags": TAG, "state": "downloading", "hash": "h"}
        self.sid, self.sign_ins = "1", 0
        web.at("/api/v2/auth/login", self.login)
        web.at("/api/v2/torrents/info", self.info)
        web.at("/api/v2/app/version", self.version)
        self.url = web.address.replace("//", "//me:hush@")

    def login(self, request: Request) -> None:
        self.sign_ins += 1
        request.rfile.read(int(request.headers["content-length"]))  # one that is not read resets the connection
        self._send(request, b"Ok.", {"set-cookie": f"SID={self.sid}; path=/"})

    def info(self, request: Request) -> None:
        self._send_to_session(request, json.dumps([self.row]).encode())

    def version(self, request: Request) -> None:
        self._send_to_session(request, b" v5.0 \n")

    def _send_to_session(self, request: Request, body: bytes) -> None:
        if request.headers.get("cookie") != f"SID={self.sid}":
            return request.head(403, {"content-length": 0})
        self._send(request, body, {})

    def _send(self, request: Request, body: bytes, headers: dict[str, str | int]) -> None:
        request.head(200, headers | {"content-length": len(body)})
        request.wfile.write(body)


@pytest.fixture
def ui() -> Iterator[WebUi]:
    with runtime.use(Runtime()), origin.origin() as web:
        yield WebUi(web)


def status(ui: WebUi, seedtime: int = 0, **row: Any) -> DownloadStatus:
    ui.row |= row
    return asyncio.run(QBittorrent(ui.url, seedtime, AddressPolicy()).get_status(TAG))


def test_a_session_is_kept_by_its_address_and_renewed_when_it_ended(ui: WebUi) -> None:
    assert not status(ui).done and not status(ui).done
    assert ui.sign_ins == 1
    assert SESSIONS.open().get(ui.url) == {"SID": "1"}
    ui.sid = "2"
    assert not status(ui).done
    assert (ui.sign_ins, SESSIONS.open().get(ui.url)) == (2, {"SID": "2"})
    with runtime.use(Runtime()):
        assert not status(ui).done
    assert ui.sign_ins == 3


def test_the_version_is_told_without_blanks(ui: WebUi) -> None:
    assert asyncio.run(QBittorrent(ui.url, 0, AddressPolicy()).get_version()) == "v5.0"


def test_states_become_ours(ui: WebUi) -> None:
    status_found = status(ui, size=10, amount_left=4)
    assert status_found == DownloadStatus(TAG, False, 6, 10, "[qBittorrent]: [qBittorrent] downloading")
    assert not status(ui, state="metaDL", size=-1, amount_left=0).done
    assert status(ui, state="error").error == "qBittorrent reports an error"
    assert status(ui, state="missingFiles").error == "files of the torrent are missing"
    assert status(ui, tags="other").error == "qBittorrent does not know this download any more"


def test_it_seeds_for_the_time_that_is_set_or_for_ever(ui: WebUi) -> None:
    ui.row |= {"size": 10, "amount_left": 0, "state": "uploading", "seeding_time": 59}
    assert (status(ui, 1).done, status(ui, 1).seeding, status(ui, 1).seeds_forever) == (True, True, False)
    assert (status(ui, -1).seeding, status(ui, -1).seeds_forever) == (False, True)
    assert not status(ui, 0).seeding
    assert not status(ui, 1, state="stoppedUP").seeding
    assert not status(ui, 1, state="uploading", seeding_time=60).seeding


@pytest.mark.parametrize("row", [None, 5, {"state": "x"}, {"tags": 1, "state": "x"}])
def test_what_is_no_answer_of_qbittorrent_is_told(ui: WebUi, row: Any) -> None:
    ui.row = row
    with pytest.raises(Problem, match=r"^no answer of qBittorrent$"):
        asyncio.run(QBittorrent(ui.url, 0, AddressPolicy()).get_status(TAG))


@pytest.mark.parametrize("url", ["nonsense", "ftp://h/", "http://", "http://[", ""])
def test_an_address_that_is_none_is_told(url: str) -> None:
    with pytest.raises(Problem, match=r"^unauthorized qbittorrent url$"):
        asyncio.run(QBittorrent(url, 0, AddressPolicy()).get_version())
