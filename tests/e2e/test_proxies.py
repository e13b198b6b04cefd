"""The service behind the proxies of `packaging/`: large uploads, ranges, the methods of WebDAV, forwarding headers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import httpx
import pytest

from mangrove.identity.lockout import MAX_FAILURES_PER_PAIR
from tests.e2e.proxies import HOST, PROXIES, find_program
from tests.support.service import ADMIN_PASSWORD, Service, run_forked

BLOCK = bytes(1 << 20)
UPLOAD_BLOCKS = 40  # more than the body that nginx accepts by default, and than it would buffer in memory
CREDENTIALS = ("admin", ADMIN_PASSWORD)


@pytest.fixture(scope="module")
def trusting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that trusts a proxy on the same computer."""
    with run_forked(tmp_path_factory.mktemp("trusting") / "data", MANGROVE_TRUSTED_PROXIES="127.0.0.1") as service:
        yield service


@pytest.fixture(scope="module", params=PROXIES)
def proxy(request: pytest.FixtureRequest, trusting: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a proxy."""
    if find_program(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    with PROXIES[request.param](tmp_path_factory.mktemp(request.param), trusting.address) as address:
        yield address


@pytest.fixture
def http(proxy: str, trusting: Service) -> Iterator[httpx.Client]:
    headers = {"authorization": trusting.client().token, "host": HOST}
    with httpx.Client(base_url=proxy, headers=headers, timeout=60) as http:
        yield http


def test_large_upload_and_ranges_pass_the_proxy(http: httpx.Client) -> None:
    digest = hashlib.sha256(BLOCK * UPLOAD_BLOCKS).hexdigest()
    headers = {"file-path": "/files/large.bin", "x-file-sha256": digest}
    answer = http.put("/api/fs/put", content=(BLOCK for _ in range(UPLOAD_BLOCKS)), headers=headers)
    assert answer.json()["code"] == 200, answer.text
    link = http.post("/api/fs/get", json={"path": "/files/large.bin"}).json()["data"]
    assert link["size"] == len(BLOCK) * UPLOAD_BLOCKS
    path = httpx.URL(link["raw_url"]).raw_path.decode()
    part = http.get(path, headers={"range": "bytes=1000-1999"})
    assert (part.status_code, part.headers["content-range"]) == (206, f"bytes 1000-1999/{link['size']}")
    assert part.content == bytes(1000)


def test_links_have_the_host_that_the_client_used(http: httpx.Client) -> None:
    http.put("/api/fs/put", content=b"content", headers={"file-path": "/files/a.txt"})
    link = httpx.URL(http.post("/api/fs/get", json={"path": "/files/a.txt"}).json()["data"]["raw_url"])
    assert link.host == HOST


def sign_in(proxy: str, address: str, password: str, claimed: str) -> int:
    """Sign in from an address while claiming another one. Return the code of the answer."""
    with httpx.Client(transport=httpx.HTTPTransport(local_address=address), timeout=60) as client:
        body, headers = {"username": "admin", "password": password}, {"x-forwarded-for": claimed}
        return int(client.post(f"{proxy}/api/auth/login", json=body, headers=headers).json()["code"])


def test_client_is_known_by_its_address_and_not_by_its_claim(proxy: str) -> None:
    guesser, other = (f"127.0.{httpx.URL(proxy).port % 200}.{number}" for number in (7, 8))  # type: ignore[operator]
    codes = [sign_in(proxy, guesser, "wrong", f"203.0.113.{number}") for number in range(MAX_FAILURES_PER_PAIR + 1)]
    assert codes[-1] == 429 and codes.count(429) == 1
    assert sign_in(proxy, other, ADMIN_PASSWORD, "203.0.113.1") == 200


def test_methods_of_webdav_pass_the_proxy(proxy: str) -> None:
    with httpx.Client(base_url=proxy, auth=CREDENTIALS, headers={"host": HOST}, timeout=60) as dav:
        folder = "/dav/files/dav"
        assert dav.request("MKCOL", folder).status_code in (201, 405)
        assert dav.put(f"{folder}/a.txt", content=b"content").status_code in (201, 204)
        destination = {"destination": f"http://{HOST}{folder}/b.txt", "overwrite": "T"}
        assert dav.request("MOVE", f"{folder}/a.txt", headers=destination).status_code in (201, 204)
        listing = dav.request("PROPFIND", folder, headers={"depth": "1"})
        assert listing.status_code == 207 and "b.txt" in listing.text and "a.txt" not in listing.text
        assert dav.get(f"{folder}/b.txt", headers={"range": "bytes=2-3"}).content == b"nt"
        assert dav.delete(folder).status_code == 204
