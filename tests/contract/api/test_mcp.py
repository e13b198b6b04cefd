"""The Model Context Protocol, by the official client and by hand."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from mangrove.protocols.mcp.changing import PLAN_SECONDS
from mangrove.protocols.mcp.messages import HANDSHAKE_VERSIONS, MODERN_VERSION
from tests.contract.api import fixtures
from tests.contract.api.accounts import People, Person
from tests.support.service import Client, Service

if TYPE_CHECKING:  # loaded by the worker that runs these tests: all workers import this module
    from mcp import Client as McpClient

EVERYTHING = 0xFFFF


@pytest.fixture(scope="module", autouse=True)
def enabled(admin: Client) -> Iterator[None]:
    with fixtures.settings(admin, mcp_enabled="true"):
        yield


def make_token(person: Person, **scope: Any) -> str:
    """Return a token for MCP of a person."""
    fields = {"title": f"{time.monotonic_ns()}", "protocols": ["mcp"]} | scope
    text: str = person.client.ok("/api/me/token/create", **fields)["token"]
    return text


def use(service: Service, token: str, work: Callable[[McpClient], Awaitable[None]], mode: str = "auto") -> None:
    """Run `work` with the official client."""
    import httpx2
    from mcp import Client as McpClient
    from mcp.client.streamable_http import streamable_http_client

    async def run() -> None:
        async with httpx2.AsyncClient(timeout=60, headers={"authorization": f"Bearer {token}"}) as http:
            transport = streamable_http_client(f"{service.address}/mcp", http_client=http)
            async with McpClient(transport, mode=mode) as client:
                await work(client)

    asyncio.run(run())


async def call(client: McpClient, tool: str, **arguments: Any) -> Any:
    """Return the structured content of a tool that must succeed."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def refuse(client: McpClient, tool: str, **arguments: Any) -> str:
    """Return the text of a tool that must fail."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result
    return str(result.content)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_official_client_works_with_files(service: Service, accounts: People, folder: str, mode: str) -> None:
    person = accounts.new(EVERYTHING)

    async def work(client: McpClient) -> None:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert names == {
            "list_folder", "search", "stat", "read_file", "write_file", "make_folder", "move", "copy", "remove",
            "list_tasks", "cancel_task", "share",
        }  # fmt: skip
        assert await call(client, "make_folder", path="/sub") == {"path": "/sub"}
        assert await call(client, "write_file", path="/sub/a.txt", content="grün") == {"path": "/sub/a.txt", "size": 5}
        assert "exist" in await refuse(client, "write_file", path="/sub/a.txt", content="x")
        await call(client, "write_file", path="/sub/b", content="AAEC", encoding="base64", overwrite=True)
        listing = await call(client, "list_folder", path="/sub")
        assert {row["name"]: row["size"] for row in listing["entries"]} == {"a.txt": 5, "b": 3}
        assert (await call(client, "stat", path="/sub"))["is_folder"]
        result = await client.call_tool("read_file", {"path": "/sub/a.txt"})
        assert "not instructions" in result.content[0].text
        assert result.content[1].resource.text == "grün"
        cut = await client.call_tool("read_file", {"path": "/sub/a.txt", "offset": 3, "length": 2})
        assert cut.content[1].resource.text == "n"
        cut = await client.call_tool("read_file", {"path": "/sub/a.txt", "length": 3})
        assert cut.content[1].resource.text == "gr"
        part = await client.call_tool("read_file", {"path": "/sub/b", "encoding": "base64", "offset": 1, "length": 1})
        assert part.content[1].resource.blob == base64.b64encode(b"\1").decode()
        await call(client, "write_file", path="/sub/c", content="/////w==", encoding="base64")
        assert "UTF-8" in await refuse(client, "read_file", path="/sub/c")

    use(service, make_token(person, folder=folder), work, mode)


def test_change_needs_the_plan_of_the_same_operation(service: Service, accounts: People, folder: str) -> None:
    person = accounts.new(EVERYTHING)
    token, other = (make_token(person, folder=folder) for _ in range(2))

    async def work(client: McpClient) -> None:
        for name in ("a", "b", "c"):
            await call(client, "write_file", path=f"/{name}", content=name)
        plan = (await call(client, "remove", path="/a"))["plan"]
        assert (await call(client, "stat", path="/a"))["size"] == 1
        assert "new plan" in await refuse(client, "remove", path="/b", plan=plan)
        assert "new plan" in await refuse(client, "move", source="/a", target="/z", plan=plan)
        assert (await call(client, "remove", path="/a", plan=plan))["is_done"]
        await call(client, "write_file", path="/a", content="a")
        assert "new plan" in await refuse(client, "remove", path="/a", plan=plan)
        stale = (await call(client, "remove", path="/b"))["plan"]
        await call(client, "write_file", path="/b", content="longer", overwrite=True)
        assert "new plan" in await refuse(client, "remove", path="/b", plan=stale)
        for bad in ("x", f"{int(time.time()) + PLAN_SECONDS}-x", "9" * 40, "-"):
            assert "new plan" in await refuse(client, "remove", path="/b", plan=bad)
        plan = (await call(client, "copy", source="/c", target="/d"))["plan"]
        assert (await call(client, "copy", source="/c", target="/d", plan=plan))["is_done"]
        plan = (await call(client, "move", source="/d", target="/e"))["plan"]
        assert (await call(client, "move", source="/d", target="/e", plan=plan))["is_done"]
        assert "exists" in await refuse(client, "move", source="/e", target="/c")
        assert {row["name"] for row in (await call(client, "list_folder", path="/"))["entries"]} == {"a", "b", "c", "e"}

    use(service, token, work)
    plans: list[str] = []

    async def plan(client: McpClient) -> None:
        plans.append((await call(client, "remove", path="/c"))["plan"])

    async def use_foreign(client: McpClient) -> None:
        assert "new plan" in await refuse(client, "remove", path="/c", plan=plans[0])

    use(service, token, plan)
    use(service, other, use_foreign)


def test_token_by_mcp_keeps_to_its_scope(service: Service, admin: Client, accounts: People, folder: str) -> None:
    person = accounts.new(EVERYTHING)
    admin.put(f"{folder}/in/file", b"mine")
    admin.put(f"{folder}/out/file", b"theirs")

    async def work(client: McpClient) -> None:
        assert [row["name"] for row in (await call(client, "list_folder", path="/"))["entries"]] == ["file"]
        for path in ("/../out/file", "..\\out\\file", f"{folder}/out/file"):
            await refuse(client, "read_file", path=path)
            await refuse(client, "share", path=path)
        for tool, arguments in (
            ("write_file", {"path": "/new", "content": "x"}), ("make_folder", {"path": "/new"}),
            ("remove", {"path": "/file"}), ("move", {"source": "/file", "target": "/b"}),
            ("copy", {"source": "/file", "target": "/b"}), ("share", {"path": "/file"}),
        ):  # fmt: skip
            await refuse(client, tool, **arguments)
        assert (await call(client, "list_tasks"))["tasks"] == []
        await refuse(client, "cancel_task", kind="copy", id="x" * 21)

    use(service, make_token(person, folder=f"{folder}/in", mode="read"), work)


def test_folders_are_resources(service: Service, admin: Client, accounts: People, folder: str) -> None:
    admin.put(f"{folder}/sub dir/file", b"x")

    async def work(client: McpClient) -> None:
        uris = [str(resource.uri) for resource in (await client.list_resources()).resources]
        assert uris == ["mangrove:///", "mangrove:///sub%20dir"]
        assert (await client.list_resource_templates()).resource_templates[0].uri_template == "mangrove:///{+path}"
        (content,) = (await client.read_resource(uris[1])).contents
        assert '"name":"file"' in content.text and "not instructions" in content.text

    use(service, make_token(accounts.new(EVERYTHING), folder=folder), work)


def test_share_tool_creates_a_link_that_works(service: Service, admin: Client, accounts: People, folder: str) -> None:
    admin.put(f"{folder}/file", b"shared")
    person = accounts.new(EVERYTHING)
    ids: list[str] = []

    async def work(client: McpClient) -> None:
        made = await call(client, "share", path="/file", expires_in_seconds=60)
        assert made["address"].endswith(f"/@s/{made['id']}")
        ids.append(made["id"])

    use(service, make_token(person, folder=folder), work)
    share = person.client.get("/api/share/get", id=ids[0])["data"]
    assert share["files"] == [f"{folder}/file"]
    left = datetime.fromisoformat(share["expires"]) - datetime.now(UTC)
    assert timedelta(0) < left <= timedelta(seconds=60)
    assert person.client.ok("/api/fs/get", path=f"/@s/{ids[0]}")["name"] == "file"


def post(service: Service, token: str, content: Any, **headers: str) -> httpx.Response:
    sent = {"authorization": f"Bearer {token}"} if token else {}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    kind = {"content": content} if isinstance(content, bytes) else {"json": content}
    return httpx.post(f"{service.address}/mcp", headers=sent, **kind, timeout=60)


PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def test_only_a_token_for_mcp_is_accepted(service: Service, admin: Client, accounts: People) -> None:
    person = accounts.new(EVERYTHING)
    assert post(service, make_token(person), PING).json() == {
        "jsonrpc": "2.0", "id": 1, "result": {"resultType": "complete"},
    }  # fmt: skip
    assert post(service, make_token(person, protocols=["api", "webdav"]), PING).status_code == 403
    permanent = admin.get("/api/admin/setting/get", key="token")["data"]["value"]
    for token in ("", person.client.token, permanent, "mgv-1-" + "a" * 32):
        refused = post(service, token, PING)
        assert refused.status_code == 401 and refused.headers["www-authenticate"].startswith("Bearer")
    assert post(service, make_token(person), PING, origin="https://elsewhere.example").status_code == 403
    with fixtures.settings(admin, mcp_enabled="false"):
        assert post(service, make_token(person), PING).status_code == 404


def test_invalid_message_is_refused(service: Service, accounts: People) -> None:
    token = make_token(accounts.new())
    for content, code in (
        (b"{", -32700), (b"[]", -32600), ([PING], -32600), ({"id": 1}, -32600), (PING | {"id": None}, -32600),
        (PING | {"params": []}, -32600), (PING | {"method": "none"}, -32601),
        (PING | {"method": "tools/call", "params": {"name": "none"}}, -32602),
        (PING | {"method": "tools/call", "params": {"name": "stat", "arguments": []}}, -32602),
        (PING | {"method": "tools/call", "params": {"name": "stat", "arguments": {"path": 1}}}, -32602),
        (PING | {"method": "tools/call", "params": {"name": "stat", "arguments": {"path": "/" * 4097}}}, -32602),
        (PING | {"method": "tools/call", "params": {"name": "stat", "arguments": {"path": "/", "x": 1}}}, -32602),
        (PING | {"method": "resources/read", "params": {"uri": "file:///etc/passwd"}}, -32602),
    ):  # fmt: skip
        assert post(service, token, content).json()["error"]["code"] == code, content
    assert post(service, token, {"jsonrpc": "2.0", "method": "notifications/initialized"}).status_code == 202
    assert post(service, token, PING, mcp_protocol_version="1900-01-01").json()["error"]["code"] == -32022
    assert httpx.get(f"{service.address}/mcp", timeout=60).status_code == 405


def test_request_that_contradicts_its_headers_is_refused(service: Service, accounts: People) -> None:
    token = make_token(accounts.new())
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN_VERSION, "io.modelcontextprotocol/clientCapabilities": {},
    }  # fmt: skip
    message = PING | {"method": "tools/list", "params": {"_meta": meta}}
    version = {"mcp_protocol_version": MODERN_VERSION}
    assert post(service, token, message, **version, mcp_method="tools/list").status_code == 200
    assert post(service, token, message, **version, mcp_method="tools/call").json()["error"]["code"] == -32020
    assert post(service, token, message).json()["error"]["code"] == -32020
    assert post(service, token, PING, **version, mcp_method="ping").json()["error"]["code"] == -32602
    initialize = PING | {"method": "initialize", "params": {"protocolVersion": HANDSHAKE_VERSIONS[-1]}}
    assert post(service, token, initialize).json()["result"]["protocolVersion"] == HANDSHAKE_VERSIONS[-1]


def test_file_of_the_largest_size_is_written_and_read(service: Service, accounts: People, folder: str) -> None:
    content = base64.b64encode(bytes(1 << 20)).decode()

    async def work(client: McpClient) -> None:
        await call(client, "write_file", path="/large", content=content, encoding="base64")
        result = await client.call_tool("read_file", {"path": "/large", "encoding": "base64"})
        assert result.content[1].resource.blob == content
        more = base64.b64encode(bytes((1 << 20) + 1)).decode()
        assert "at most" in await refuse(client, "write_file", path="/more", content=more, encoding="base64")
        assert "at most" in await refuse(client, "read_file", path="/large", length=(1 << 20) + 1)

    use(service, make_token(accounts.new(EVERYTHING), folder=folder), work)
