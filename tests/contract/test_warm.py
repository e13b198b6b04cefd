"""A file request of a warm process asks the records engine nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

PASSWORD = "only for this test"


def in_process(folder: Path, work: Callable[[httpx.AsyncClient], Awaitable[None]]) -> None:
    """Run `work` with a client of the gateway, signed in as the administrator of a first start with `folder`."""
    from mangrove.configuration import first_start
    from mangrove.identity import passwords
    from mangrove.identity.rights import ADMIN_PERMISSION
    from mangrove.standalone.gateway import Gateway
    from mangrove.tree import mounts

    first_start.run(folder, lambda: PASSWORD, passwords.hash_password, ADMIN_PERMISSION)

    async def go() -> None:
        transport = httpx.ASGITransport(Gateway())
        async with httpx.AsyncClient(transport=transport, base_url="http://mangrove") as client:
            login = await client.post("/api/auth/login", json={"username": "admin", "password": PASSWORD})
            client.headers["authorization"] = login.json()["data"]["token"]
            try:
                await work(client)
            finally:
                await mounts.close()

    asyncio.run(go())


async def data(answer: Awaitable[httpx.Response]) -> Any:
    envelope = (await answer).json()
    assert envelope["code"] == 200, envelope
    return envelope["data"]


def test_warm_requests_make_no_call_to_the_records_engine(records: None, tmp_path: Path) -> None:
    from mangrove.records.store.base import count_calls

    async def work(client: httpx.AsyncClient) -> None:
        headers = {"file-path": "/files/d/a.txt"}
        await data(client.put("/api/fs/put", content=b"bytes", headers=headers))

        async def everything() -> list[Any]:
            listed = await data(client.post("/api/fs/list", json={"path": "/files/d"}))
            root = await data(client.post("/api/fs/list", json={"path": "/"}))
            entry = await data(client.post("/api/fs/get", json={"path": "/files/d/a.txt"}))
            me = await data(client.get("/api/me"))
            bytes_ = (await client.get(entry["raw_url"])).content
            refused = (await client.post("/api/fs/get", json={"path": "/files/none"})).json()["code"]
            return [listed["content"], root["content"], entry["size"], me["username"], bytes_, refused]

        first = await everything()
        assert [entry["name"] for entry in first[0]] == ["a.txt"]
        assert [entry["name"] for entry in first[1]] == ["files"]
        assert first[2:] == [5, "admin", b"bytes", 500]
        before = count_calls()
        assert await everything() == first
        assert count_calls() == before

    in_process(tmp_path, work)


TRASH_CALLS = 2  # the intent of a removal, and the entry of the trash


def test_a_warm_upload_and_removal_make_no_call_to_the_records_engine(records: None, tmp_path: Path) -> None:
    """Without a search index: what marks cost is a matter of `tests/unit/tree/test_journal.py`."""
    from mangrove.records.store.base import count_calls

    async def work(client: httpx.AsyncClient) -> None:
        switched = [{"key": "search_index", "value": "none"}]
        await data(client.post("/api/admin/setting/save", json=switched))
        await data(client.get("/api/me"))
        before = count_calls()
        await data(client.post("/api/fs/mkdir", json={"path": "/files/d"}))
        await data(client.put("/api/fs/put", content=b"bytes", headers={"file-path": "/files/d/a.txt"}))
        await data(client.post("/api/fs/rename", json={"path": "/files/d/a.txt", "name": "b.txt"}))
        await data(client.post("/api/fs/remove", json={"dir": "/files/d", "names": ["b.txt"]}))
        listed = await data(client.post("/api/fs/list", json={"path": "/files/d"}))
        assert listed["total"] == 0
        assert count_calls() == before + TRASH_CALLS

    in_process(tmp_path, work)


def test_calls_are_counted(records: None, tmp_path: Path) -> None:
    from mangrove.records.store.base import count_calls

    async def work(client: httpx.AsyncClient) -> None:
        before = count_calls()
        await data(client.get("/api/admin/user/list"))
        assert count_calls() > before

    in_process(tmp_path, work)


def test_the_access_log_says_who_asked(records: None, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        await data(client.get("/api/me"))
        await client.get("/api/me", headers={"authorization": "forged"})

    with caplog.at_level(logging.INFO, logger="mangrove"):
        in_process(tmp_path, work)
    lines = [record.__dict__["facts"] for record in caplog.records if record.message == "request"]
    callers = [(line["path"], line["code"], line.get("caller")) for line in lines]
    assert callers == [("/api/auth/login", 200, None), ("/api/me", 200, "admin"), ("/api/me", 401, None)]
