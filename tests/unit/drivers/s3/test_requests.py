"""Requests that are sent without botocore: signed as botocore signs, repeated, and sent where the bucket is."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials as BotocoreCredentials

from mangrove.core.aws import create_client
from mangrove.core.http_connections import make_connections
from mangrove.core.problems import EntryNotFound, StorageProblem, Unreachable
from mangrove.core.signatures import Credentials, Signer, encode_path, encode_query
from mangrove.drivers.s3.driver import S3
from mangrove.drivers.s3.requests import MAX_PAUSE_SECONDS, Requests, find_address, find_usual_address
from tests.contract.drivers import actions
from tests.unit.drivers.s3.bucket import Bucket, P, odd_server, run_on_driver
from tests.unit.drivers.s3.proxy import Exchange, Proxy

HASH = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize("token", ["", "a session/token=="])
@pytest.mark.parametrize(
    ("method", "key", "query", "headers"),
    [
        ("GET", "plain.txt", {}, {}),
        ("GET", "a b/ü+~'(1)*!&=%.txt", {"versionId": "a/b+c=="}, {"range": "bytes=1-2", "if-match": '"x"'}),
        ("PUT", "d/f", {"uploadId": "x~y", "partNumber": "10"}, {"content-type": "text/plain;  charset=utf-8"}),
        ("GET", "", {"prefix": "ü d/", "delimiter": "/", "marker": "", "max-keys": "5"}, {}),
    ],
)
def test_signature_equals_that_of_botocore(
    method: str, key: str, query: Mapping[str, str], headers: Mapping[str, str], token: str
) -> None:
    path = f"/bucket/{encode_path(key)}"
    sent = {"host": "s3.test:9000", **headers}
    signed = Signer("s3", "eu-west-1", lambda: Credentials("key", "secret", token)).sign(
        method, path, query, sent, HASH
    )
    url = f"http://s3.test:9000{path}" + (f"?{encode_query(query)}" if query else "")
    request = AWSRequest(method, url, headers={**sent, "X-Amz-Content-SHA256": HASH})
    auth = S3SigV4Auth(BotocoreCredentials("key", "secret", token or None), "s3", "eu-west-1")
    request.context["timestamp"] = signed["x-amz-date"]
    request.headers["X-Amz-Date"] = signed["x-amz-date"]
    if token:
        request.headers["X-Amz-Security-Token"] = token
    text = auth.string_to_sign(request, auth.canonical_request(request))
    assert signed["authorization"].endswith(f"Signature={auth.signature(text, request)}")


LINKS = {"response-content-disposition": "attachment; filename*=UTF-8''x%20y.txt", "versionId": "v/1+="}


@pytest.mark.parametrize("endpoint", [None, "http://127.0.0.1:9000", "https://s3.test:9000/base/"])
@pytest.mark.parametrize("token", [None, "a session/token=="])
@pytest.mark.parametrize("key", ["plain.txt", "a b/ü+~'(1)*!&=%.txt", "a//b"])
def test_link_equals_that_of_botocore(endpoint: str | None, token: str | None, key: str) -> None:
    region, bucket = "eu-west-1", "my-bucket"
    options: dict[str, Any] = {"endpoint_url": endpoint, "config": Config(signature_version="s3v4")}
    options |= {"aws_access_key_id": "id", "aws_secret_access_key": "secret", "aws_session_token": token}
    client = create_client("s3", region=region, **options)
    address = find_address(client.generate_presigned_url("head_object", Params={"Bucket": bucket, "Key": "-"}), "-")
    signer = Signer("s3", region, lambda: Credentials("id", "secret", token or ""))
    requests = Requests(address, signer, make_connections(address, None, 1, 1), "")
    parameters = {"Bucket": bucket, "Key": key, "ResponseContentDisposition": LINKS["response-content-disposition"]}
    for _ in range(100):  # a link has the second in which it is signed
        link = requests.sign_link(key, LINKS, 900)
        expected = client.generate_presigned_url(
            "get_object", Params=parameters | {"VersionId": LINKS["versionId"]}, ExpiresIn=900
        )
        if link == expected:
            break
    assert link == expected


@pytest.mark.parametrize("endpoint", ["", "http://127.0.0.1:9000", "http://127.0.0.1:9000/"])
@pytest.mark.parametrize("region", ["us-east-1", "eu-central-1", "us-gov-west-1", "ap-southeast-2"])
@pytest.mark.parametrize("bucket", ["my-bucket", "stack-files-1a2b3c"])
def test_usual_address_equals_that_of_botocore(
    monkeypatch: pytest.MonkeyPatch, bucket: str, region: str, endpoint: str
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    client = create_client("s3", region=region, config=Config(signature_version="s3v4"))
    url = client.generate_presigned_url("head_object", Params={"Bucket": bucket, "Key": "-"})
    assert find_usual_address(region, bucket) == find_address(url, "-")


@pytest.mark.parametrize(
    ("region", "bucket"),
    [
        ("cn-north-1", "my-bucket"), ("us-iso-east-1", "my-bucket"), ("", "my-bucket"), ("eu-west-1", "my.bucket"),
        ("eu-west-1", "My-bucket"), ("eu-west-1", "my-bucket--use1-az4--x-s3"), ("eu-west-1", "x"),
        ("eu-west-1", "arn:aws:s3:eu-west-1:123456789012:accesspoint/x"),
    ],
)  # fmt: skip
def test_other_buckets_are_left_to_botocore(region: str, bucket: str) -> None:
    assert find_usual_address(region, bucket) is None


@pytest.mark.parametrize("url", ["http://minio.test:9000", "https://127.0.0.1:9000", "http://127.0.0.1:9000/base"])
def test_other_endpoints_are_left_to_botocore(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", url)
    assert find_usual_address("eu-west-1", "my-bucket") is None


@pytest.mark.parametrize("name", ["a b", "ü", "a+b", "100%", "q?x=1&y", "#", "~tilde", "(1)", "a=b;c,d", "x" * 200])
def test_every_name_is_stored_read_listed_and_removed(bucket: Bucket, name: str) -> None:
    async def work(driver: S3) -> None:
        await actions.put(driver, f"/{name}", b"content")
        assert await actions.content(driver, f"/{name}") == b"content"
        assert await actions.names(driver, "/") == [name]
        await driver.remove(P(f"/{name}"))

    run_on_driver(bucket.options(), work)
    assert bucket.keys() == []


def test_connections_are_used_again_unless_the_server_closed_them(proxy: Proxy, bucket_behind: Bucket) -> None:
    bucket_behind.put("f", content=b"content")
    connections: set[object] = set()

    async def work(driver: S3) -> None:
        for _ in range(10):
            assert await actions.content(driver, "/f") == b"content"

    proxy.before.append(lambda exchange: connections.add(threading.get_ident()))
    run_on_driver(bucket_behind.options(), work)
    assert len(connections) == 1  # the proxy has a thread for each


def test_closed_idle_connection_is_replaced(proxy: Proxy, bucket_behind: Bucket) -> None:
    bucket_behind.put("f", content=b"content")

    def close(exchange: Exchange) -> None:
        exchange.answer_headers["connection"] = "close"

    async def work(driver: S3) -> None:
        for _ in range(3):
            assert await actions.content(driver, "/f") == b"content"

    proxy.after.append(close)
    run_on_driver(bucket_behind.options(), work)
    assert proxy.count("get_object") == 3


@pytest.mark.parametrize("status", [500, 503, -1])
def test_request_that_fails_once_is_repeated_once(proxy: Proxy, bucket_behind: Bucket, status: int) -> None:
    bucket_behind.put("f", content=b"content")

    def fail(exchange: Exchange) -> None:
        exchange.respond(status, "InternalError")

    proxy.once("head_object", fail)

    async def work(driver: S3) -> None:
        assert (await driver.stat(P("/f"))).size == 7

    began = time.monotonic()
    run_on_driver(bucket_behind.options(), work)
    assert proxy.count("head_object") == 2
    assert time.monotonic() - began < MAX_PAUSE_SECONDS + 60


def test_request_that_is_refused_is_not_repeated(proxy: Proxy, bucket_behind: Bucket) -> None:
    async def work(driver: S3) -> None:
        await actions.fails(driver.stat(P("/missing")), EntryNotFound)

    run_on_driver(bucket_behind.options(), work)
    assert proxy.count("head_object") == 1


@pytest.mark.parametrize("region", ["", "us-east-1"])
def test_bucket_that_moves_to_nowhere_is_reported(region: str) -> None:
    headers = {"x-amz-bucket-region": region} if region else {}
    with odd_server(301, b"", headers=headers) as options:
        with pytest.raises(StorageProblem, match="another region"):
            run_on_driver(options, lambda driver: actions.content(driver, "/f"))


def test_bucket_in_another_region_is_followed(proxy: Proxy, bucket_behind: Bucket) -> None:
    """All later requests are signed for the region that the server names."""
    bucket_behind.put("f", content=b"content")

    def move(exchange: Exchange) -> None:
        if "/us-east-1/" in exchange.headers["authorization"]:
            exchange.respond(301, "PermanentRedirect")
            exchange.answer_headers["x-amz-bucket-region"] = "eu-north-1"

    async def work(driver: S3) -> None:
        assert await actions.content(driver, "/f") == b"content"
        await actions.put(driver, "/g", b"more")
        await driver.rename(P("/g"), P("/h"))

    proxy.before.append(move)
    run_on_driver(bucket_behind.options(region="us-east-1"), work)
    regions = ["eu-north-1" in exchange.headers["authorization"] for exchange in proxy.seen]
    assert regions == [False] + [True] * (len(regions) - 1)
    assert bucket_behind.keys() == ["f", "h"]


@contextmanager
def tunnel(upstream: tuple[str, int]) -> Iterator[tuple[str, list[bytes]]]:
    """A proxy that passes every connection on, and the first lines that it received."""
    lines: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def pump(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError), target:  # the other side may have ended the connection
            while data := source.recv(65536):
                target.sendall(data)

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            head = client.recv(65536)
            lines.append(head.partition(b"\r\n")[0])
            server = socket.create_connection(upstream)
            server.sendall(head)
            threading.Thread(target=pump, args=(client, server), daemon=True).start()
            threading.Thread(target=pump, args=(server, client), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", lines
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def test_proxy_of_the_environment_gets_the_whole_address(
    bucket: Bucket, moto: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, port = moto.removeprefix("http://").rsplit(":", 1)
    bucket.put("f", content=b"content")
    with tunnel((host, int(port))) as (address, lines):
        monkeypatch.setenv("http_proxy", address)
        monkeypatch.setenv("no_proxy", "")
        assert run_on_driver(bucket.options(), lambda driver: actions.content(driver, "/f")) == b"content"
    assert lines[0].startswith(f"GET {moto}/".encode())


def test_server_that_cuts_a_body_off_is_unreachable() -> None:
    with odd_server(200, b"0123456789", announced=20) as options:

        async def read(driver: S3) -> None:
            with pytest.raises(Unreachable):
                await actions.content(driver, "/f")

        run_on_driver(options, read)
