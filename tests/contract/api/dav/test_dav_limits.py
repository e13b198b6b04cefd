"""Bounds of WebDAV: bytes in storages, names in bodies, and the size of answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.api import fixtures
from tests.contract.api.dav.load import measure_load
from tests.contract.api.dav_client import LOCK, Dav
from tests.support.disks import mount_small
from tests.support.service import Client, Service

MAX_GROWTH_BYTES = 64 << 20
MAX_WAIT_SECONDS = 2.0  # the attack took twice as long
LONG_NAMESPACE = "u" * 20_000
PROPERTY_ELEMENTS = "".join(f"<b:n{number}/>" for number in range(3000))
ATTACKS = {
    "PROPFIND": (
        f'<D:propfind xmlns:D="DAV:" xmlns:b="{LONG_NAMESPACE}"><D:prop>{PROPERTY_ELEMENTS}</D:prop></D:propfind>'
    ),
    "PROPPATCH": (
        f'<D:propertyupdate xmlns:D="DAV:" xmlns:b="{LONG_NAMESPACE}"><D:remove><D:prop>{PROPERTY_ELEMENTS}</D:prop>'
        "</D:remove></D:propertyupdate>"
    ),
    "LOCK": LOCK.format(scope="exclusive").replace(
        "<D:owner>", f'<D:owner xmlns:b="{LONG_NAMESPACE}">{PROPERTY_ELEMENTS[:30_000].rpartition("<")[0]}'
    ),
}


def test_put_into_full_storage_answers_507(admin: Client, dav: Dav, tmp_path: Path) -> None:
    """D1 of issue 25: it was 500."""
    with mount_small(tmp_path / "small", "1m") as small, fixtures.local(admin, small) as mount:
        answer = dav.send("PUT", f"{mount}/f", b"x" * (3 << 20))
        assert answer.status_code == 507 and "no space left" in answer.text
        assert [*small.iterdir()] == []
        assert dav.status("PUT", f"{mount}/f", b"x") == 201


@pytest.mark.parametrize("method", ATTACKS)
def test_body_with_many_long_names_is_refused(
    service: Service, dav: Dav, admin: Client, folder: str, method: str
) -> None:
    """A2 of issue 25: a PROPFIND of ten entries took 1,986 MiB and held others up for 4.4 s."""
    for number in range(10):
        admin.put(f"{folder}/{number}", b"x")
    with measure_load(service) as load:
        answer = dav.send(method, folder, ATTACKS[method], depth="0" if method == "LOCK" else "1")
    print(f"{method}: {answer.status_code}, {load.memory >> 20} MiB, {load.wait:.2f} s")
    assert answer.status_code == 400
    assert load.memory < MAX_GROWTH_BYTES and load.wait < MAX_WAIT_SECONDS


def test_propfind_of_most_names_is_streamed_in_bounded_memory(
    service: Service, dav: Dav, tmp_path: Path, admin: Client
) -> None:
    """The largest body that is taken, of a folder of 1,000 entries: an answer of 48 MiB."""
    for number in range(1000):
        (tmp_path / f"{number}").touch()
    names = "".join(f'<n{number:0>255} xmlns="{"&amp;" * 255}{chr(97 + number)}"/>' for number in range(26))
    names += "".join(f'<n{number:0>255} xmlns="u"/>' for number in range(26, 64))
    body = f'<D:propfind xmlns:D="DAV:"><D:prop>{names}</D:prop></D:propfind>'
    with fixtures.local(admin, tmp_path) as mount, measure_load(service) as load:
        size = 0
        with dav.http.stream("PROPFIND", f"/dav{mount}", content=body, headers={"depth": "1"}) as answer:
            assert answer.status_code == 207
            for chunk in answer.iter_bytes():
                size += len(chunk)
    print(f"{len(body)} bytes of body, {size >> 20} MiB of answer: {load.memory >> 20} MiB, {load.wait:.2f} s")
    assert size > 10 << 20
    assert load.memory < MAX_GROWTH_BYTES and load.wait < MAX_WAIT_SECONDS


def test_propfind_of_a_name_too_many_is_refused(dav: Dav, folder: str) -> None:
    def ask(count: int) -> int:
        names = "".join(f'<n{number} xmlns="u:{number}"/>' for number in range(count))
        body = f'<D:propfind xmlns:D="DAV:"><D:prop>{names}</D:prop></D:propfind>'
        return dav.status("PROPFIND", folder, body, depth="0")

    assert [ask(63), ask(64), ask(65)] == [207, 400, 400], "DAV: is one of 64 namespaces"
