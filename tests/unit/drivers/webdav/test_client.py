"""Signing, redirects, and servers with bad answers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound, NotAFile, StorageForbidden, StorageProblem, Unreachable
from mangrove.drivers.base import ROOT, list_all
from mangrove.drivers.webdav import client as dav
from mangrove.drivers.webdav.driver import MAX_LISTING_ATTEMPTS
from mangrove.drivers.webdav.resources import ListingInterrupted
from tests.contract.drivers.actions import content, fails, names, put
from tests.unit.drivers.webdav.canned import (
    FILE,
    FOLDER,
    HEAD,
    TAIL,
    Request,
    canned,
    entry,
    in_loop,
    multistatus,
    reply,
    storage,
)
from tests.unit.net.test_client import make_certificate

P = TreePath
BASIC = reply(401, WWW_Authenticate='Basic realm="x"')
LISTING = multistatus(entry("/", FOLDER), entry("/f", FILE))


@in_loop
async def test_nothing_is_contacted_at_the_start() -> None:
    async with canned(lambda _: LISTING) as server:
        async with storage(server.address):
            pass
        assert server.requests == []


@in_loop
async def test_the_password_is_shown_when_it_is_asked_for_and_from_then_on() -> None:
    async with canned(lambda request: LISTING if "authorization" in request.headers else BASIC) as server:
        async with storage(server.address) as driver:
            await asyncio.gather(*(list_all(driver, ROOT) for _ in range(5)))
            assert await names(driver, "/") == ["f"]
        shown = ["authorization" in request.headers for request in server.requests]
        assert (shown[0], shown[-1]) == (False, True) and sum(shown) == 6


@in_loop
async def test_a_wrong_password_is_tried_once() -> None:
    async with canned(lambda _: BASIC) as server, storage(server.address) as driver:
        with pytest.raises(StorageForbidden, match="user name or password"):
            await list_all(driver, ROOT)
        assert len(server.requests) == 2


@in_loop
async def test_an_expired_nonce_is_replaced_before_a_body_is_sent() -> None:
    nonces = [0]

    def answer(request: Request) -> bytes:
        if f'nonce="{nonces[-1]}"' not in request.headers.get("authorization", ""):
            nonces.append(len(nonces))
            stale = "true" if "authorization" in request.headers else "false"
            challenge = f'Digest realm="x", qop="auth", nonce="{nonces[-1]}", stale={stale}'
            return reply(401, WWW_Authenticate=challenge)
        if request.method == "PROPFIND":
            return reply(404)
        return reply(201)

    async with canned(answer) as server, storage(server.address) as driver:
        for _ in range(3):
            await put(driver, "/f", b"body")
            nonces.append(len(nonces))  # all that were given out have expired
        bodies = [request.body for request in server.requests if request.method == "PUT"]
        assert bodies == [b"body"] * 3


@in_loop
async def test_another_host_sees_no_password() -> None:
    async with canned(lambda _: reply(200, b"elsewhere")) as other:

        def answer(request: Request) -> bytes:
            if "authorization" not in request.headers:
                return BASIC
            return reply(302, Location=f"{other.address}/x") if request.method == "GET" else LISTING

        async with canned(answer) as server, storage(server.address) as driver:
            assert await content(driver, "/f") == b"elsewhere"
        assert "authorization" not in other.requests[0].headers


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("http://127.0.0.1:1/x", StorageForbidden),
        ("http://10.0.0.1/x", StorageForbidden),
        ("http://169.254.169.254/latest", StorageForbidden),
        ("file:///etc/passwd", StorageProblem),
        ("http://[", StorageProblem),
        ("/f/", NotAFile),
        ("/again", Unreachable),
    ],
)
@in_loop
async def test_where_redirects_may_not_lead(target: str, kind: type[Exception]) -> None:
    async with canned(lambda _: reply(302, Location=target)) as server:
        async with storage(server.address.replace("127.0.0.1", "localhost")) as driver:
            await fails(driver.read(P("/f")), kind)


@pytest.mark.parametrize("host", ["169.254.169.254", "[fd00:ec2::254]", "[::ffff:169.254.169.254]", "2852039166"])
@in_loop
async def test_the_address_may_be_no_metadata_service(host: str) -> None:
    async with storage(f"http://{host}/latest") as driver:
        await fails(driver.stat(P("/f")), (StorageForbidden, Unreachable))


@pytest.mark.parametrize("answer", [reply(200, b"<html>"), reply(405), reply(501), reply(301, Location="ftp://x")])
@in_loop
async def test_a_server_that_speaks_no_webdav_is_said_to(answer: bytes) -> None:
    async with canned(lambda _: answer) as server, storage(server.address) as driver:
        await fails(list_all(driver, ROOT), StorageProblem)


@pytest.mark.parametrize("answer", [reply(207, HEAD + entry("/", FOLDER)), reply(503), None, b"nonsense\r\n\r\n"])
@in_loop
async def test_a_server_that_breaks_off_is_unreachable(answer: bytes | None) -> None:
    async with canned(lambda _: answer) as server, storage(server.address) as driver:
        await fails(list_all(driver, ROOT), Unreachable)


@pytest.mark.parametrize("attempts", [1, MAX_LISTING_ATTEMPTS - 1, MAX_LISTING_ATTEMPTS])
@in_loop
async def test_listing_that_a_removal_interrupts_is_repeated(attempts: int) -> None:
    interrupted = reply(207, HEAD + entry("/", FOLDER) + entry("/f", FILE) + TAIL + "Internal Server Error")
    answers = iter([interrupted] * attempts)
    async with canned(lambda _: next(answers, LISTING)) as server, storage(server.address) as driver:
        if attempts < MAX_LISTING_ATTEMPTS:
            assert await names(driver, "/") == ["f"]
        else:
            with pytest.raises(ListingInterrupted, match="was changed while"):
                await list_all(driver, ROOT)
        assert len(server.requests) == min(attempts + 1, MAX_LISTING_ATTEMPTS)


@in_loop
async def test_a_server_that_hangs_is_unreachable_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANSWER_TIMEOUT_SECONDS", "LISTING_TIMEOUT_SECONDS"):
        monkeypatch.setattr(dav, name, 0.2)
    ended = asyncio.Event()

    async def hang(_: Request) -> bytes | None:
        await ended.wait()
        return None

    async with canned(hang) as server, storage(server.address) as driver:
        with pytest.raises(Unreachable, match="no answer within the time allowed"):
            await asyncio.wait_for(list_all(driver, ROOT), 30)
        ended.set()


@in_loop
async def test_a_listing_may_take_long_while_the_server_answers_anything_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dav, "PROBE_DELAY_SECONDS", 0.1)
    monkeypatch.setattr(dav, "PROBE_TIMEOUT_SECONDS", 60.0)
    lists, probed, answers = asyncio.Event(), asyncio.Event(), True

    async def answer(request: Request) -> bytes | None:
        if request.method == "PROPFIND" or not answers:
            await lists.wait()
            return LISTING
        probed.set()
        return reply(401)

    async with canned(answer) as server, storage(server.address) as driver:
        listing = [asyncio.create_task(names(driver, "/")) for _ in range(40)]
        await probed.wait()
        lists.set()
        assert await asyncio.gather(*listing) == [["f"]] * 40
        assert server.list_methods().count("OPTIONS") < 40  # one asks for all who wait at that time
        lists.clear()
        answers = False
        monkeypatch.setattr(dav, "PROBE_TIMEOUT_SECONDS", 0.5)
        listing = [asyncio.create_task(names(driver, "/")) for _ in range(40)]
        for failed in await asyncio.gather(*listing, return_exceptions=True):
            assert isinstance(failed, Unreachable)
            assert failed.message == "the WebDAV server does not answer"
        before = len(server.requests)
        with monkeypatch.context() as soon:  # however much later it is on a loaded computer
            soon.setattr(asyncio.get_running_loop(), "time", lambda: driver._server._silent_until - 0.1)
            await fails(names(driver, "/"), Unreachable)
        assert len(server.requests) == before
        lists.set()
        answers = True
        async with asyncio.timeout(120):
            while True:
                try:
                    assert await names(driver, "/") == ["f"]
                    break
                except Unreachable:
                    await asyncio.sleep(0.05)


@in_loop
async def test_what_can_be_asked_again_is_when_an_idle_connection_was_closed() -> None:
    dropped = [2, 4]

    def answer(_: Request) -> bytes | None:
        return None if len(server.requests) in dropped else LISTING

    async with canned(answer) as server, storage(server.address) as driver:
        for _ in range(3):
            assert await names(driver, "/") == ["f"]
        assert len(server.requests) == 5


@in_loop
async def test_slow_downloads_keep_nobody_from_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dav, "MAX_BODY_CONNECTIONS", 2)
    endless = reply(200, b"x" * 100_000, 1 << 40)
    async with canned(lambda request: endless if request.method == "GET" else LISTING) as server:
        async with storage(server.address) as driver:
            streams = [await driver.read(P("/f")) for _ in range(2)]
            assert await names(driver, "/") == ["f"]
            with monkeypatch.context() as short:
                short.setattr(dav, "CONNECTION_WAIT_SECONDS", 0.2)
                with pytest.raises(Unreachable, match="all connections are in use"):
                    await driver.read(P("/f"))
            for stream in streams:
                await stream.aclose()  # type: ignore[attr-defined]
            await (await driver.read(P("/f"))).aclose()  # type: ignore[attr-defined]


@in_loop
async def test_connections_that_nobody_uses_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dav, "IDLE_TIMEOUT_SECONDS", 0.05)
    async with canned(lambda _: LISTING) as server, storage(server.address) as driver:
        await asyncio.gather(*(list_all(driver, ROOT) for _ in range(5)))
        async with asyncio.timeout(30):
            while server.connections:  # noqa: ASYNC110 - of another task
                await asyncio.sleep(0.01)
        assert await names(driver, "/") == ["f"]


def test_a_new_event_loop_has_new_connections() -> None:
    async def listed() -> list[str]:
        async with canned(lambda _: LISTING) as server, storage(server.address) as driver:
            drivers.append(driver)
            return await names(driver, "/")

    async def again() -> list[str]:
        async with canned(lambda _: LISTING) as server:
            drivers[0]._urls._origin = server.address
            listed = await names(drivers[0], "/")
            await drivers[0].stop()
            return listed

    drivers: list[dav.WebDavClient | object] = []
    assert asyncio.run(listed()) == asyncio.run(again()) == ["f"]


def test_certificates_count_unless_the_option_says_otherwise(tmp_path: Path) -> None:
    async def look(skip: bool) -> list[str]:
        tls = make_certificate(tmp_path, "other.example")
        async with canned(lambda _: LISTING, tls) as server:
            async with storage(server.address, tls_insecure_skip_verify=skip) as driver:
                return await names(driver, "/")

    assert asyncio.run(look(True)) == ["f"]
    with pytest.raises(Unreachable, match="certificate is not trusted"):
        asyncio.run(look(False))


@in_loop
async def test_a_server_without_tls_is_no_secure_connection() -> None:
    async def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(close, "127.0.0.1", 0)
    async with storage(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}") as driver:
        await fails(list_all(driver, ROOT), Unreachable)
    server.close()


@in_loop
async def test_a_failure_shows_no_password() -> None:
    async with storage("http://127.0.0.1:1/dav", password="hush hush") as driver:
        with pytest.raises(Unreachable) as refused:
            await list_all(driver, ROOT)
        assert "hush" not in refused.value.message and "/dav" not in refused.value.message


@in_loop
async def test_what_is_missing_is_not_found() -> None:
    async with canned(lambda _: reply(404)) as server, storage(server.address) as driver:
        await fails(list_all(driver, P("/d")), EntryNotFound)
        await fails(driver.read(P("/f")), EntryNotFound)
