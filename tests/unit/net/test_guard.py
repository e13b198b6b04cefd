"""What downloads may reach: judged by the address a connection is really made to."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mangrove.net import guard
from mangrove.net.guard import Allowed
from mangrove.problems import Problem, Unreachable
from mangrove.tools import http, urls
from tests import origin
from tests.origin import Origin

HERE = Allowed.parse("127.0.0.2")
PRIVATE = """
    0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200 127.0.0.1 127.255.255.254 169.254.169.254
    169.254.170.2 172.16.0.1 172.31.255.255 192.0.0.192 192.0.2.1 192.168.1.1 198.18.0.1 198.51.100.7 203.0.113.9
    224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 168.63.129.16
    :: ::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::127.0.0.1 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe
    64:ff9b:1::1 100::1 2001::1 2001:db8::1 2002:7f00:1:: 2002:a9fe:a9fe:: fc00::1 fd00:ec2::254 fd12:3456::1
    fe80::1 fec0::1 ff02::1 3fff::1 4000::1
"""
PUBLIC = """
    1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 172.15.255.255
    172.32.0.0 192.167.255.255 192.169.0.0 223.255.255.255 2606:4700:4700::1111 2a00:1450::1 ::ffff:8.8.8.8
    64:ff9b::808:808
"""
SPELLINGS = """
    127.0.0.1 127.1 127.0.1 2130706433 0x7f000001 0x7f.0.0.1 0x7f.1 017700000001 localhost LOCALHOST 0 0.0.0.0 00
    [::1] [::] [0:0:0:0:0:0:0:1] [::ffff:127.0.0.1] [::ffff:7f00:1] [64:ff9b::7f00:1] [2002:7f00:1::]
    169.254.169.254 2852039166 0xa9fea9fe [fd00:ec2::254] [::ffff:a9fe:a9fe] 10.0.0.1 192.168.0.1 172.16.0.1
"""


def fetched(url: str, allowed: Allowed = HERE) -> bytes:
    async def fetch() -> bytes:
        async with http.fetch(url, allowed) as answer:
            return b"".join([block async for block in answer.blocks()])

    return asyncio.run(fetch())


@pytest.fixture
def public() -> Iterator[Origin]:
    """A server at the one address that counts as public."""
    with origin.origin("127.0.0.2") as found:
        yield found


@pytest.fixture
def private() -> Iterator[Origin]:
    with origin.origin("127.0.0.1") as found:
        found.at("/", origin.file(b"secret"))
        yield found


class Names:
    """In front of the system's resolver: names of the test's own, with an answer for each time they are asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: dict[str, list[list[str]]] = {}
        self._real = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self._ask)

    def _ask(self, host: Any, port: Any, *more: Any, **how: Any) -> Any:
        known = self.answers.get(host)
        if known is None:
            return self._real(host, port, *more, **how)
        found = known.pop(0) if len(known) > 1 else known[0]
        return [entry for address in found for entry in self._real(address, port, *more, **how)]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    return Names(monkeypatch)


@pytest.mark.parametrize("address", PRIVATE.split())
def test_an_address_that_is_not_of_the_public_internet_is_none(address: str) -> None:
    assert not guard.public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", PUBLIC.split())
def test_an_address_of_the_public_internet_is_one(address: str) -> None:
    assert guard.public(ipaddress.ip_address(address))


@pytest.mark.parametrize("host", SPELLINGS.split())
def test_no_spelling_of_a_private_address_is_reached(private: Origin, host: str) -> None:
    port = private.address.rpartition(":")[2]
    with pytest.raises(guard.ForbiddenAddress, match=r"^access to .* is not allowed$"):
        fetched(f"http://{host}:{port}/", Allowed())
    assert private.asked == []


@pytest.mark.parametrize(
    "host", ["0177.0.0.1", "１２７.0.0.1", "127.0.0.1.", "①②⑦.0.0.1", "127。0。0。1", "[fe80::1%25lo]"]
)
def test_an_odd_spelling_that_no_resolver_reads_reaches_nothing(private: Origin, host: str) -> None:
    with pytest.raises((guard.ForbiddenAddress, urls.BadAddress, Unreachable)):
        fetched(f"http://{host}:{private.address.rpartition(':')[2]}/", Allowed())
    assert private.asked == []


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_redirect_to_a_private_address_is_refused(public: Origin, private: Origin, code: int) -> None:
    url = public.at("/", origin.redirect(f"{private.address}/", code))
    with pytest.raises(guard.ForbiddenAddress, match=r"^access to 127\.0\.0\.1 is not allowed$"):
        fetched(url)
    assert (len(public.asked), private.asked) == (1, [])


@pytest.mark.parametrize(
    "target",
    [
        "file:///etc/passwd",
        "gopher://127.0.0.2/",
        "ftp://127.0.0.2/x",
        "http://u:p@127.0.0.2/",
        "//127.0.0.2:99999/",
    ],
)
def test_a_redirect_to_what_is_no_web_address_is_refused(public: Origin, target: str) -> None:
    with pytest.raises(urls.BadAddress):
        fetched(public.at("/", origin.redirect(target)))


def test_a_name_that_answers_differently_the_second_time_is_checked_the_second_time(
    public: Origin, private: Origin, names: Names
) -> None:
    port = public.address.rpartition(":")[2]
    names.answers["rebound.example"] = [["127.0.0.2"], ["127.0.0.1"]]
    with origin.origin("127.0.0.1", int(port)) as inside:
        inside.at("/next", origin.file(b"secret"))
        public.at("/", origin.redirect("/next"))
        with pytest.raises(guard.ForbiddenAddress, match=r"^access to rebound\.example is not allowed$"):
            fetched(f"http://rebound.example:{port}/")
        assert (len(public.asked), inside.asked) == (1, [])


def test_the_address_that_was_checked_is_the_one_that_is_connected_to(public: Origin, names: Names) -> None:
    port = public.address.rpartition(":")[2]
    public.at("/", origin.file(b"fine"))
    names.answers["twice.example"] = [["127.0.0.2"], ["127.0.0.1"]]
    assert fetched(f"http://twice.example:{port}/") == b"fine"
    assert names.answers["twice.example"] == [["127.0.0.1"]], "the name was asked once"
    assert public.asked[0].headers["host"] == f"twice.example:{port}"


def test_of_several_addresses_only_the_permitted_are_tried(public: Origin, private: Origin, names: Names) -> None:
    port = public.address.rpartition(":")[2]
    public.at("/", origin.file(b"fine"))
    names.answers["mixed.example"] = [["127.0.0.1", "127.0.0.3", "127.0.0.2"]]
    with origin.origin("127.0.0.1", int(port)) as inside:
        assert fetched(f"http://mixed.example:{port}/", Allowed.parse("127.0.0.2, 127.0.0.3")) == b"fine"
        assert inside.asked == []


def test_another_programs_host_must_be_permitted_at_all_its_addresses(names: Names) -> None:
    names.answers["mixed.example"] = [["8.8.8.8", "127.0.0.1"]]
    names.answers["public.example"] = [["8.8.8.8", "1.1.1.1"]]
    asyncio.run(urls.reachable("http://public.example/x", Allowed()))
    with pytest.raises(guard.ForbiddenAddress):
        asyncio.run(urls.reachable("ftp://mixed.example/x", Allowed()))
    asyncio.run(urls.reachable("ftp://mixed.example/x", Allowed.parse("127.0.0.1")))
    with pytest.raises(Unreachable, match="was not found"):
        asyncio.run(urls.reachable("http://nowhere.invalid/", Allowed()))


@pytest.mark.parametrize(
    "server",
    [
        "tr=http://127.0.0.1/announce", "tr.1=udp%3A%2F%2F10.0.0.1%3A80%2F", "ws=http://169.254.169.254/", "xs=http://[::1]/",
        "AS=http%3A%2F%2Flocalhost", "x.pe=192.168.0.1:6881", "tr=http://8.8.8.8/&tr=http://2130706433/",
    ],
)  # fmt: skip
def test_the_servers_that_a_magnet_link_names_must_be_permitted(server: str) -> None:
    magnet = urls.checked(f"Magnet:?xt=urn:btih:{'a' * 40}&{server}", "aria2")
    with pytest.raises(guard.ForbiddenAddress):
        asyncio.run(urls.reachable(magnet, Allowed()))


def test_a_magnet_link_may_name_public_servers_and_ones_that_are_gone(names: Names) -> None:
    names.answers["public.example"] = [["8.8.8.8"]]
    magnet = f"magnet:?xt=urn:btih:{'a' * 40}"
    servers = "&tr=udp://public.example:80&tr=http://gone.invalid/&xs=urn:sha1:abc&x.pe=8.8.8.8:1"
    asyncio.run(urls.reachable(urls.checked(magnet + servers, "aria2"), Allowed()))
    for more in (101 * "&tr=http://8.8.8.8/", "&tr=http://[/"):
        with pytest.raises(urls.BadAddress):
            asyncio.run(urls.reachable(urls.checked(magnet + more, "aria2"), Allowed()))
    with pytest.raises(urls.BadAddress):
        urls.checked(magnet + 600 * "&a=b", "aria2")


@pytest.mark.parametrize(
    "listed",
    ["127.0.0.1", "127.0.0.0/8", "10.0.0.1,\n127.0.0.1", "LocalHost", "127.0.0.1/8", "other.example localhost"],
)
def test_what_the_administrator_lists_is_reached(private: Origin, names: Names, listed: str) -> None:
    names.answers["localhost"] = [["127.0.0.1"]]
    port = private.address.rpartition(":")[2]
    assert fetched(f"http://localhost:{port}/", Allowed.parse(listed)) == b"secret"


@pytest.mark.parametrize("listed", ["", "127.0.0.2", "10.0.0.0/8", "host", "localhost.example", "127.0.0.1/99"])
def test_what_the_administrator_does_not_list_is_not_reached(private: Origin, listed: str) -> None:
    with pytest.raises(guard.ForbiddenAddress):
        fetched(f"{private.address}/", Allowed.parse(listed))


@pytest.mark.parametrize(
    "address", ["169.254.169.254", "fd00:ec2::254", "fe80::1", "100.100.100.200", "::ffff:169.254.169.254"]
)
def test_the_administrators_own_tools_are_no_metadata_service(address: str) -> None:
    assert not guard.TOOLS.permits("aria2", ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "192.168.1.2", "10.0.0.2", "fd12::1", "8.8.8.8"])
def test_the_administrators_own_tools_may_be_neighbours(address: str) -> None:
    assert guard.TOOLS.permits("aria2", ipaddress.ip_address(address))


def test_no_proxy_of_the_environment_is_used(public: Origin, private: Origin, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, private.address)
    assert fetched(public.at("/f", origin.file(b"direct"))) == b"direct"
    assert private.asked == []


def certified(folder: Path, name: str) -> ssl.SSLContext:
    """A server's side of TLS, with a certificate of its own for `name`, written to `folder`."""
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    who = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    made = (
        x509.CertificateBuilder(who, who, key.public_key(), x509.random_serial_number(), now, now + timedelta(1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    encoding, plain = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (folder / "key.pem").write_bytes(key.private_bytes(encoding, plain, serialization.NoEncryption()))
    (folder / "certificate.pem").write_bytes(made.public_bytes(encoding))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    return context


def test_certificates_are_checked_against_the_name(
    tmp_path: Path, names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    names.answers |= {"right.example": [["127.0.0.2"]], "wrong.example": [["127.0.0.2"]]}
    server = certified(tmp_path, "right.example")
    guard._tls.cache_clear()
    try:
        with origin.origin("127.0.0.2", tls=server) as secure:
            secure.at("/", origin.file(b"sealed"))
            port = secure.address.rpartition(":")[2]
            with pytest.raises(Problem, match="certificate is not trusted"):
                fetched(f"https://right.example:{port}/")
            monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
            guard._tls.cache_clear()
            assert fetched(f"https://right.example:{port}/") == b"sealed"
            with pytest.raises(Problem, match="certificate is not trusted"):
                fetched(f"https://wrong.example:{port}/")
    finally:
        guard._tls.cache_clear()
