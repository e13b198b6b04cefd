"""The effects of the options."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from typing import Any

import pytest

from mangrove.core.problems import StorageForbidden, StorageProblem
from mangrove.drivers.base import ROOT, list_all
from tests.unit.drivers.webdav.canned import FILE, FOLDER, Request, canned, entry, multistatus, reply, storage


def list_names(base: str, **options: Any) -> list[str]:
    """Return the names of a server with one file in `/dav/root`, which requires the password."""
    known = f"Basic {b64encode(b'me:hush hush').decode()}"

    def answer(request: Request) -> bytes:
        if request.headers.get("authorization") != known:
            return reply(401, WWW_Authenticate='Basic realm="x"')
        is_there = request.target == "/dav/root/"
        return multistatus(entry("/dav/root/", FOLDER), entry("/dav/root/f", FILE)) if is_there else reply(404)

    async def listed() -> list[str]:
        async with canned(answer) as server, storage(f"{server.address}{base}", **options) as driver:
            return [entry.name for entry in await list_all(driver, ROOT)]

    return asyncio.run(listed())


def test_where_the_files_are() -> None:
    assert list_names("/dav", root_folder_path="/root") == list_names("/dav/root/") == ["f"]
    with pytest.raises(StorageProblem):
        list_names("/dav", root_folder_path="/other")


def test_who_asks() -> None:
    for options in ({"username": "you"}, {"password": "hush"}, {"username": "", "password": ""}):
        with pytest.raises(StorageForbidden):
            list_names("/dav/root", **options)


def test_the_sign_in_of_sharepoint_is_not_supported() -> None:
    for vendor in ("other", ""):
        assert list_names("/dav/root", vendor=vendor) == ["f"]
    with pytest.raises(StorageProblem, match="SharePoint is not supported"):
        list_names("/dav/root", vendor="sharepoint")
