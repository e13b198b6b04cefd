"""A caller that takes much of a scarce resource does not take it from others."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit
from zipfile import ZIP_DEFLATED, ZipFile

import httpx
import pytest

from tests.support.service import Client, Service


def fetch_from(address: str, url: str) -> httpx.Response:
    """GET from another address of this machine."""
    with httpx.Client(transport=httpx.HTTPTransport(local_address=address), timeout=60) as client:
        return client.get(url)


@pytest.fixture
def member(service: Service, admin: Client, folder: str) -> str:
    """The address of a member of an archive that has a large one and a small one; what follows is its name."""
    with ZipFile(service.data / folder[1:] / "x.zip", "w", ZIP_DEFLATED) as archive:
        archive.writestr("large", os.urandom(1 << 20) * 32)
        archive.writestr("small", "hello")
    meta = admin.ok("/api/fs/archive/meta", path=f"{folder}/x.zip")
    return f"{service.address}/ae{folder}/x.zip?sign={meta['sign']}&inner="


@pytest.fixture
def readers_who_do_not_read(service: Service, member: str) -> Iterator[None]:
    """Sixteen of them, from one address."""
    address = urlsplit(service.address)
    path = member.removeprefix(service.address)
    with ExitStack() as open_ones:
        for number in range(16):
            reader = open_ones.enter_context(socket.create_connection((address.hostname, address.port)))
            reader.sendall(f"GET {path}large HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            if number < 4:
                assert reader.recv(15) == b"HTTP/1.1 200 OK"  # the share of one address
        yield


@pytest.mark.usefixtures("readers_who_do_not_read")
def test_sixteen_readers_of_archives_who_do_not_read_stop_nobody(member: str) -> None:
    assert fetch_from("127.0.0.9", f"{member}small").text == "hello"
