"""aria2's answers as this service reads them, given by a server of the tests' own; tests/protocol has the real one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from mangrove.core.problems import Problem
from mangrove.net.addresses import AddressPolicy, ForbiddenAddress
from mangrove.tools.aria2 import ERRORS, Aria2, Aria2Error
from mangrove.tools.base import DownloadStatus
from tests.support import origin
from tests.support.origin import Origin, Request


class Rpc:
    """Answers each method with what is set; `calls` are the methods and parameters so far."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.calls: list[tuple[str, list[Any]]] = []

    def __call__(self, request: Request) -> None:
        call = json.loads(request.rfile.read(int(request.headers["content-length"])))
        method = call["method"].removeprefix("aria2.")
        self.calls.append((method, call["params"]))
        answer = self.answers.get(method, {"error": {"code": 1, "message": f"GID {call['params'][1:2]} is not found"}})
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        request.head(200, {"content-length": len(body)})
        request.wfile.write(body)


@pytest.fixture
def rpc() -> Rpc:
    return Rpc()


@pytest.fixture
def tool(rpc: Rpc) -> Iterator[Aria2]:
    with origin.origin() as web:
        yield Aria2(serve(web, rpc), "hush", AddressPolicy())


def serve(web: Origin, rpc: Rpc) -> str:
    return web.at("/jsonrpc", rpc)


def status(rpc: Rpc, tool: Aria2, **download: Any) -> DownloadStatus:
    rpc.answers["tellStatus"] = {"result": {"gid": "g", "status": "active"} | download}
    return asyncio.run(tool.get_status("g"))


def test_a_download_that_aria2_does_not_know_is_a_failure_of_its_own(tool: Aria2) -> None:
    assert asyncio.run(tool.get_status("g")).error == "aria2 does not know this download any more"
    asyncio.run(tool.remove("g"))


def test_any_other_error_keeps_aria2s_words(rpc: Rpc, tool: Aria2) -> None:
    rpc.answers["tellStatus"] = {"error": {"code": 1, "message": "Invalid GID g" + "x" * 500}}
    with pytest.raises(Aria2Error, match=r"^Invalid GID gx{187}$"):
        asyncio.run(tool.get_status("g"))


@pytest.mark.parametrize("answer", [b"", b"<html>", b"[]", b"{}", b'{"error": "x"}', b'{"result": 5}', b"[" * 100_000])
def test_what_is_no_answer_of_aria2_is_told(rpc: Rpc, tool: Aria2, answer: bytes) -> None:
    rpc.answers["tellStatus"] = answer
    with pytest.raises(Problem, match=r"^no answer of aria2$"):
        asyncio.run(tool.get_status("g"))
    rpc.answers["getVersion"] = answer
    with pytest.raises(Problem, match=r"^failed get aria2 version: no answer of aria2$"):
        asyncio.run(tool.get_version())


def test_states_and_exit_codes_become_ours(rpc: Rpc, tool: Aria2) -> None:
    status_found = status(rpc, tool, totalLength="10", completedLength="4")
    assert status_found == DownloadStatus("g", False, 4, 10, "[aria2]: aria2: active", "")
    assert status(rpc, tool, status="complete").done
    assert status(rpc, tool, status="removed").error == "the download was removed from aria2"
    assert status(rpc, tool, status="error", errorCode="3").error == ERRORS[3]
    assert status(rpc, tool, status="error", errorCode="99").error == "aria2 failed with its error 99"


def test_the_same_key_is_the_same_download_and_the_secret_goes_first(rpc: Rpc, tool: Aria2) -> None:
    rpc.answers["addUri"] = {"result": "x"}
    policy_allows = "http://8.8.8.8/file"
    first, second, other = (asyncio.run(tool.add(policy_allows, "/f", key)) for key in ("key", "key", "other"))
    assert first == second != other
    added = [parameters for method, parameters in rpc.calls if method == "addUri"]
    assert next((call[0], call[1], call[2]["gid"], call[2]["dir"]) for call in added) == (
        "token:hush", [policy_allows], first, "/f",
    )  # fmt: skip
    with pytest.raises(ForbiddenAddress):
        asyncio.run(tool.add("http://127.0.0.1/file", "/f", "key"))
