"""The bounds of the XML that clients send."""

from __future__ import annotations

import asyncio
import gc
import random
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable

import pytest

from mangrove.core.problems import BadRequest, Problem
from mangrove.protocols.webdav import bodies
from mangrove.protocols.webdav.bodies import RepeatableBody

PROPFIND = '<D:propfind xmlns:D="DAV:"><D:prop>{}</D:prop></D:propfind>'
PROPPATCH = '<D:propertyupdate xmlns:D="DAV:"><D:set><D:prop>{}</D:prop></D:set></D:propertyupdate>'
LOCKINFO = (
    '<D:lockinfo xmlns:D="DAV:"><D:lockscope><D:shared/></D:lockscope><D:locktype><D:write/></D:locktype>'
    "<D:owner>{}</D:owner></D:lockinfo>"
)
PARSERS: dict[str, Callable[[bytes], object]] = {
    PROPFIND: bodies.parse_propfind, PROPPATCH: bodies.parse_proppatch, LOCKINFO: bodies.parse_lockinfo,
}  # fmt: skip


@pytest.mark.parametrize("template", [PROPFIND, PROPPATCH])
@pytest.mark.parametrize(
    ("elements", "reason"),
    [
        ("".join(f"<n{number}/>" for number in range(65)), "64 properties"),
        (f'<n xmlns="{"u" * 257}"/>', "namespace may have 256"),
        (f"<{'n' * 257}/>", "may have 256 characters"),
        (f"<n {'a' * 257}=''/>", "may have 256 characters"),
        (f'<n a:b="" xmlns:a="{"u" * 257}"/>', "namespace may have 256"),
        ("<n>" + "".join(f'<m xmlns="{number}"/>' for number in range(64)) + "</n>", "64 namespaces"),
        ("<n>" + "<m/>" * 2000 + "</n>", "2000 elements"),
        ("<n>" + "<m>" * 64 + "</m>" * 64 + "</n>", "too deep"),
    ],
)
def test_parse_beyond_bound_is_refused_with_reason(template: str, elements: str, reason: str) -> None:
    with pytest.raises(BadRequest, match=reason):
        PARSERS[template](template.replace("{}", elements).encode())


def test_parse_include_beyond_bound_is_refused() -> None:
    names = "".join(f"<n{number}/>" for number in range(65))
    body = f'<D:propfind xmlns:D="DAV:"><D:allprop/><D:include>{names}</D:include></D:propfind>'
    with pytest.raises(BadRequest, match="64 properties"):
        bodies.parse_propfind(body.encode())


def test_parse_owner_of_many_elements_is_refused() -> None:
    with pytest.raises(BadRequest, match="1024 characters"):
        bodies.parse_lockinfo(LOCKINFO.replace("{}", "<a/>" * 500).encode())


def make_body(source: random.Random) -> bytes:
    """A body of one of the three kinds with parts that bodies do not have, some of them damaged."""
    names = ["D:prop", "D:allprop", "D:include", "D:set", "x", "a:y", "D:owner", "n" * source.choice((1, 255, 300))]
    text = ""
    opened: list[str] = []
    length = source.choice((100, 5_000, 60_000))
    while len(text) < length:
        if opened and source.random() < 0.6:
            text += f"</{opened.pop()}>"
        name = source.choice(names)
        namespace = source.choice(("", "", f' xmlns="{"u" * source.choice((1, 250, 5000))}"', ' xmlns:a="v"', ' b="c"'))
        opened.append(name)
        text += f"<{name}{namespace}>{source.choice(('', 't', '&amp;', '<![CDATA[x]]>', '<!-- c -->', '<?p i?>'))}"
    text += "".join(f"</{name}>" for name in reversed(opened))
    body = bytearray(source.choice(list(PARSERS)).replace("{}", text).encode()[: bodies.MAX_BODY_BYTES])
    for _ in range(source.choice((0, 0, 1, 5))):
        body[source.randrange(len(body))] = source.randrange(256)
    return bytes(body)


@pytest.mark.rest
def test_parse_random_bodies_for_a_minute_stays_within_bounds() -> None:
    """Whatever is sent is parsed or refused, within 50 ms and a few MiB."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    source, end, count, longest = random.Random(seed), time.monotonic() + 60, 0, 0.0
    parsers = list(PARSERS.values())
    accepted = 0
    gc.freeze()  # what other tests left is not looked through again
    while time.monotonic() < end:
        body, parse = make_body(source), source.choice(parsers)
        if count % 50 == 0:
            tracemalloc.start()
        began = time.thread_time()
        try:
            parse(body)
            accepted += 1
        except Problem as problem:
            assert problem.message
        if tracemalloc.is_tracing():
            assert tracemalloc.get_traced_memory()[1] < 16 << 20, f"seed {seed}, body {count}"
            tracemalloc.stop()
        else:
            longest = max(longest, time.thread_time() - began)
        count += 1
    print(f"{count} bodies, {accepted} accepted, {longest * 1000:.1f} ms at most")
    assert accepted and longest < 0.05, f"seed {seed}"


def test_repeatable_body_comes_again_from_its_start() -> None:
    async def iterate() -> AsyncIterator[bytes]:
        for chunk in (b"1", b"22", b"333"):
            yield chunk

    async def read_twice(first_chunks: int) -> list[bytes]:
        body = RepeatableBody(iterate())
        for _ in range(first_chunks):
            await anext(body)
        body.rewind()
        return [chunk async for chunk in body]

    for count in range(4):
        assert asyncio.run(read_twice(count)) == [b"1", b"22", b"333"]
