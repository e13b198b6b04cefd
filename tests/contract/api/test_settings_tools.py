"""Settings of the download tools."""

from __future__ import annotations

import re
import shutil
import socket
from pathlib import Path
from uuid import uuid4

import pytest

from tests import servers
from tests.contract.api import fixtures
from tests.contract.api.accounts import get_data, get_refusal, stranger
from tests.contract.api.settings_client import (
    get_value,
    make_row,
    save,
)
from tests.support.service import Client, Service


def find_closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


# The download tools
def test_an_aria2_that_does_not_answer_is_told_and_its_address_kept(admin: Client) -> None:
    with fixtures.settings(admin, aria2_uri="http://before", aria2_secret="before", offline_download_ready=""):
        uri = f"http://127.0.0.1:{find_closed_port()}/jsonrpc"
        code, message = get_refusal(admin.post("/api/admin/setting/set_aria2", uri=uri, secret="hush hush"))
        assert code == 500 and message.startswith("failed get aria2 version: ")
        assert "hush" not in message
        assert (get_value(admin, "aria2_uri"), get_value(admin, "aria2_secret")) == (uri, "hush hush")


@pytest.mark.parametrize(
    "uri", ["", "nonsense", "http://", "http://[", "http://127.0.0.1:99999/", "file:///etc/passwd"]
)
def test_what_is_no_aria2_address_is_a_clean_failure(admin: Client, uri: str) -> None:
    with fixtures.settings(admin, aria2_uri="http://before", aria2_secret=""):
        code, message = get_refusal(admin.post("/api/admin/setting/set_aria2", uri=uri))
        assert code == 500 and message.startswith("failed get aria2 version: ")


def test_a_server_that_is_no_aria2_is_told_apart(service: Service, admin: Client) -> None:
    with fixtures.settings(admin, aria2_uri="http://before", aria2_secret=""):
        for path in ("/ping", "/api/public/settings", "/robots.txt"):
            code, message = get_refusal(admin.post("/api/admin/setting/set_aria2", uri=service.address + path))
            assert code == 500 and message.startswith("failed get aria2 version: ")


def test_a_qbittorrent_that_does_not_answer_is_told_and_its_address_kept(admin: Client) -> None:
    with fixtures.settings(admin, qbittorrent_url="http://before/", qbittorrent_seedtime="0"):
        url = f"http://me:hush@127.0.0.1:{find_closed_port()}/"
        code, message = get_refusal(admin.post("/api/admin/setting/set_qbit", url=url, seedtime="7"))
        assert code == 500 and "hush" not in message
        assert (get_value(admin, "qbittorrent_url"), get_value(admin, "qbittorrent_seedtime")) == (url, "7")


@pytest.mark.parametrize("url", ["", "nonsense", "http://", "http://[", "ftp://127.0.0.1/", "file:///etc/passwd"])
def test_what_is_no_qbittorrent_address_is_refused_by_name(admin: Client, url: str) -> None:
    with fixtures.settings(admin, qbittorrent_url="http://before/", qbittorrent_seedtime="0"):
        refused = get_refusal(admin.post("/api/admin/setting/set_qbit", url=url, seedtime="0"))
        assert refused == (500, "unauthorized qbittorrent url")


def test_a_server_that_is_no_qbittorrent_does_not_count_as_signed_in(service: Service, admin: Client) -> None:
    with fixtures.settings(admin, qbittorrent_url="http://before/", qbittorrent_seedtime="0"):
        url = service.address.replace("http://", "http://me:hush@")
        code, message = get_refusal(admin.post("/api/admin/setting/set_qbit", url=url, seedtime="0"))
        assert code == 500
        assert message.startswith("failed to login into qBittorrent webui with url: ")
        assert "hush" not in message


@pytest.mark.skipif(not shutil.which("aria2c"), reason="there is no aria2c here: apt-get install aria2")
def test_a_tool_is_offered_while_its_last_setting_up_went_well(service: Service, admin: Client) -> None:
    def list_offered() -> list[str]:
        names: list[str] = get_data(stranger(service).get("/api/public/offline_download_tools"))
        return names

    with fixtures.settings(admin, offline_download_ready="", aria2_uri="http://before", aria2_secret=""):
        assert list_offered() == ["SimpleHttp"]
        with servers.aria2() as aria2:
            body = {"uri": aria2.uri, "secret": aria2.secret}
            assert re.fullmatch(
                r"aria2 version: 1\.[\d.]+", get_data(admin.post("/api/admin/setting/set_aria2", **body))
            )
            assert list_offered() == ["SimpleHttp", "aria2"]
            assert (get_value(admin, "aria2_uri"), get_value(admin, "aria2_secret")) == (aria2.uri, aria2.secret)
        assert get_refusal(admin.post("/api/admin/setting/set_aria2", **body))[0] == 500
        assert list_offered() == ["SimpleHttp"]
        get_data(save(admin, make_row("offline_download_ready", "Nonsense,qBittorrent,SimpleHttp")))
        assert list_offered() == ["SimpleHttp", "qBittorrent"]


@pytest.mark.skipif(not shutil.which("qbittorrent-nox"), reason="qbittorrent-nox is not here: apt-get install it")
def test_qbittorrent_answers_ok_and_hides_its_password(service: Service, admin: Client, tmp_path: Path) -> None:
    password = f"mark{uuid4().hex}"
    with fixtures.settings(
        admin, offline_download_ready="", qbittorrent_url="http://before/", qbittorrent_seedtime="0"
    ):
        with servers.qbittorrent(tmp_path, password) as url:
            assert get_data(admin.post("/api/admin/setting/set_qbit", url=url, seedtime="-1")) == "ok"
            assert "qBittorrent" in get_data(stranger(service).get("/api/public/offline_download_tools"))
            wrong = url.replace(password, f"{password}x")
            assert password not in str(get_refusal(admin.post("/api/admin/setting/set_qbit", url=wrong, seedtime="0")))
        assert password not in stranger(service).http.get("/api/public/settings").text
    assert password not in (service.data.parent / f"{service.data.name}.log").read_text()
    assert password.encode() not in (service.data / "records.db").read_bytes()
