"""The guarded client: which addresses it connects to, and its failures in words."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpcore
import httpx
import pytest

from mangrove.core import runtime
from mangrove.core.problems import Problem, Unreachable
from mangrove.core.runtime import Runtime
from mangrove.net import client
from mangrove.net.addresses import LOCAL_POLICY, AddressPolicy, ForbiddenAddress
from mangrove.tools import http, urls
from tests.support import origin
from tests.support.origin import Origin
from tests.unit.net.conftest import Names

LOOPBACK_POLICY = AddressPolicy.parse("127.0.0.2")
SPELLINGS = """
    127.0.0.1 127.1 127.0.1 2130706433 0x7f000001 0x7f.0.0.1 0x7f.1 017700000001 localhost LOCALHOST 0 0.0.0.0 00
    [::1] [::] [0:0:0:0:0:0:0:1] [::ffff:127.0.0.1] [::ffff:7f00:1] [64:ff9b::7f00:1] [2002:7f00:1::]
    169.254.169.254 2852039166 0xa9fea9fe [fd00:ec2::254] [::ffff:a9fe:a9fe] 10.0.0.1 192.168.0.1 172.16.0.1
"""


def fetch(url: str, policy: AddressPolicy = LOOPBACK_POLICY) -> bytes:
    async def read() -> bytes:
        async with http.fetch(url, policy) as response:
            return b"".join([block async for block in response.iter_blocks()])

    return asyncio.run(read())


@pytest.fixture
def both() -> Iterator[tuple[Origin, Origin]]:
    """A server at the one address that counts as public, and one with the same port at one that does not."""
    with origin.neighbors("127.0.0.2", "127.0.0.1") as neighbors:
        yield neighbors


@pytest.fixture
def public(both: tuple[Origin, Origin]) -> Origin:
    return both[0]


@pytest.fixture
def inside(both: tuple[Origin, Origin]) -> Origin:
    return both[1]


@pytest.fixture
def private() -> Iterator[Origin]:
    with origin.origin("127.0.0.1") as server:
        server.at("/", origin.file(b"secret"))
        yield server


@pytest.mark.parametrize("host", SPELLINGS.split())
def test_no_spelling_of_a_private_address_is_reached(private: Origin, host: str) -> None:
    port = private.address.rpartition(":")[2]
    with pytest.raises(ForbiddenAddress, match=r"^access to .* is not allowed$"):
        fetch(f"http://{host}:{port}/", AddressPolicy())
    assert private.requests == []


@pytest.mark.parametrize(
    "host", ["0177.0.0.1", "１２７.0.0.1", "127.0.0.1.", "①②⑦.0.0.1", "127。0。0。1", "[fe80::1%25lo]"]
)
def test_an_odd_spelling_that_no_resolver_reads_reaches_nothing(private: Origin, host: str) -> None:
    with pytest.raises((ForbiddenAddress, urls.InvalidUrl, Unreachable)):
        fetch(f"http://{host}:{private.address.rpartition(':')[2]}/", AddressPolicy())
    assert private.requests == []


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_redirect_to_a_private_address_is_refused(public: Origin, private: Origin, code: int) -> None:
    url = public.at("/", origin.redirect(f"{private.address}/", code))
    with pytest.raises(ForbiddenAddress, match=r"^access to 127\.0\.0\.1 is not allowed$"):
        fetch(url)
    assert (len(public.requests), private.requests) == (1, [])


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
    with pytest.raises(urls.InvalidUrl):
        fetch(public.at("/", origin.redirect(target)))


def test_changed_resolution_of_name_is_checked_again(public: Origin, inside: Origin, names: Names) -> None:
    port = public.address.rpartition(":")[2]
    names.answers["rebound.example"] = [["127.0.0.2"], ["127.0.0.1"]]
    inside.at("/next", origin.file(b"secret"))
    public.at("/", origin.redirect("/next"))
    with pytest.raises(ForbiddenAddress, match=r"^access to rebound\.example is not allowed$"):
        fetch(f"http://rebound.example:{port}/")
    assert (len(public.requests), inside.requests) == (1, [])


def test_the_address_that_was_checked_is_the_one_that_is_connected_to(public: Origin, names: Names) -> None:
    port = public.address.rpartition(":")[2]
    public.at("/", origin.file(b"fine"))
    names.answers["twice.example"] = [["127.0.0.2"], ["127.0.0.1"]]
    assert fetch(f"http://twice.example:{port}/") == b"fine"
    assert names.answers["twice.example"] == [["127.0.0.1"]], "the name was asked once"
    assert public.requests[0].headers["host"] == f"twice.example:{port}"


def test_of_several_addresses_only_the_permitted_are_tried(public: Origin, inside: Origin, names: Names) -> None:
    port = public.address.rpartition(":")[2]
    public.at("/", origin.file(b"fine"))
    names.answers["mixed.example"] = [["127.0.0.1", "127.0.0.3", "127.0.0.2"]]
    assert fetch(f"http://mixed.example:{port}/", AddressPolicy.parse("127.0.0.2, 127.0.0.3")) == b"fine"
    assert inside.requests == []


@pytest.mark.parametrize(
    "listed",
    ["127.0.0.1", "127.0.0.0/8", "10.0.0.1,\n127.0.0.1", "LocalHost", "127.0.0.1/8", "other.example localhost"],
)
def test_what_the_administrator_lists_is_reached(private: Origin, names: Names, listed: str) -> None:
    names.answers["localhost"] = [["127.0.0.1"]]
    port = private.address.rpartition(":")[2]
    assert fetch(f"http://localhost:{port}/", AddressPolicy.parse(listed)) == b"secret"


@pytest.mark.parametrize("listed", ["", "127.0.0.2", "10.0.0.0/8", "host", "localhost.example", "127.0.0.1/99"])
def test_what_the_administrator_does_not_list_is_not_reached(private: Origin, listed: str) -> None:
    with pytest.raises(ForbiddenAddress):
        fetch(f"{private.address}/", AddressPolicy.parse(listed))


def test_no_proxy_of_the_environment_is_used(public: Origin, private: Origin, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, private.address)
    assert fetch(public.at("/f", origin.file(b"direct"))) == b"direct"
    assert private.requests == []


def make_certificate(folder: Path, name: str) -> ssl.SSLContext:
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
    server = make_certificate(tmp_path, "right.example")
    with origin.origin("127.0.0.2", tls=server) as secure:
        secure.at("/", origin.file(b"sealed"))
        port = secure.address.rpartition(":")[2]
        with runtime.use(Runtime()), pytest.raises(Problem, match="certificate is not trusted"):
            fetch(f"https://right.example:{port}/")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
        with runtime.use(Runtime()):
            assert fetch(f"https://right.example:{port}/") == b"sealed"
            with pytest.raises(Problem, match="certificate is not trusted"):
                fetch(f"https://wrong.example:{port}/")


def get(url: str) -> httpx.Response:
    """Return the answer of `client.request`."""

    async def send() -> httpx.Response:
        async with client.make_client(LOCAL_POLICY) as client_made:
            return await client.request(client_made, "GET", url)

    return asyncio.run(send())


def test_a_request_returns_any_status_with_its_body(private: Origin) -> None:
    assert (get(f"{private.address}/").status_code, get(f"{private.address}/").content) == (200, b"secret")
    assert get(f"{private.address}/nothing").status_code == 404


def test_a_request_reads_no_more_than_its_bound(private: Origin) -> None:
    with pytest.raises(Problem, match=r"^the answer is too large$"):
        get(private.at("/endless", origin.endless()))


def test_a_request_that_fails_has_the_reason_alone_as_its_message(private: Origin) -> None:
    with pytest.raises(Unreachable, match=r"^no connection$"):
        get("http://127.0.0.1:1/")
    with pytest.raises(Unreachable, match=r"^the connection broke off$"):
        get(private.at("/cut", origin.file(b"x" * 100, cut=50)))


def chained(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (httpcore.ConnectTimeout(), "no connection within the time allowed"),
        (httpx.ConnectTimeout(""), "no connection within the time allowed"),
        (httpcore.ReadTimeout(), "no answer within the time allowed"),
        (httpcore.ConnectError(), "no connection"),
        (chained(httpcore.ConnectError(), ssl.SSLCertVerificationError()), "its certificate is not trusted"),
        (chained(httpcore.ConnectError(), ssl.SSLError()), "no secure connection"),
        (httpcore.UnsupportedProtocol(), "not a valid address"),
        (httpx.InvalidURL("x"), "not a valid address"),
        (httpcore.RemoteProtocolError("certificate"), "the connection broke off"),
        (httpcore.ReadError(), "the connection broke off"),
    ],
)
def test_each_failure_has_its_words(error: Exception, words: str) -> None:
    assert client.describe_failure(error) == words
    with pytest.raises(Unreachable) as plain, client.translate_errors():
        raise error
    with pytest.raises(Unreachable) as named, client.translate_errors("host.example"):
        raise error
    assert (plain.value.message, named.value.message) == (words, f"host.example: {words}")
