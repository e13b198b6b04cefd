"""Bytes that are damaged on the way: a driver notices them on any S3 server behind a proxy."""

from __future__ import annotations

import os
from collections.abc import Callable

from mangrove.core.problems import EntryNotFound, StorageProblem, Unreachable
from mangrove.drivers.base import Upload
from mangrove.drivers.s3.driver import S3
from tests.contract.drivers import actions
from tests.unit.drivers.s3.bucket import MIB, P
from tests.unit.drivers.s3.proxy import Exchange, Proxy, flip

SMALL, LARGE = 300_000, 9 * MIB


def damage_body(exchange: Exchange) -> None:
    exchange.body = flip(exchange.body)


def damage_every(proxy: Proxy, operation: str) -> Callable[[], None]:
    """Damage all bodies of an operation, until the answer is called."""

    def look(exchange: Exchange) -> None:
        if exchange.operation == operation and exchange.body:
            damage_body(exchange)

    proxy.before.append(look)
    return lambda: proxy.before.remove(look)


async def notice_a_damaged_put(driver: S3, proxy: Proxy) -> None:
    """Nothing of it stays; one that is damaged once is stored all the same."""
    written = os.urandom(SMALL)
    heal = damage_every(proxy, "put_object")
    await actions.fails(driver.write(P("/f"), actions.body(written), Upload(SMALL, 0.0)), Unreachable)
    await actions.fails(driver.stat(P("/f")), EntryNotFound)
    heal()
    await driver.write(P("/f"), actions.body(written), Upload(SMALL, 0.0))
    assert await actions.content(driver, "/f") == written


async def notice_a_damaged_part(driver: S3, proxy: Proxy) -> None:
    """The part is not counted, and the file it would have replaced stays."""
    written = os.urandom(LARGE)
    await actions.put(driver, "/f", b"old")
    heal = damage_every(proxy, "upload_part")
    await actions.fails(driver.write(P("/f"), actions.body(written), Upload(LARGE, 0.0)), StorageProblem)
    token = await driver.begin(P("/f"), Upload(LARGE, 0.0), "key")
    await actions.fails(driver.write_part(P("/f"), token, 1, 0, written), StorageProblem)
    await driver.abort(P("/f"), token)
    assert await actions.content(driver, "/f") == b"old"
    heal()
    await driver.write(P("/f"), actions.body(written), Upload(LARGE, 0.0))
    assert await actions.content(driver, "/f") == written


async def notice_a_damaged_get(driver: S3, proxy: Proxy) -> None:
    """The stream breaks at its end, and the next one is whole."""
    written = os.urandom(SMALL)
    await actions.put(driver, "/f", written)

    def damage(exchange: Exchange) -> None:
        if exchange.operation == "get_object":
            exchange.answer = flip(exchange.answer)

    proxy.after.append(damage)
    for length in (None, SMALL):
        await actions.fails(actions.content(driver, "/f", 0, length), Unreachable)
    proxy.after.remove(damage)
    assert await actions.content(driver, "/f") == written


CASES = [notice_a_damaged_put, notice_a_damaged_part, notice_a_damaged_get]
