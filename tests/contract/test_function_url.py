"""WebDAV through a Function URL, with events as Lambda sends them, under Lambda's runtime client."""

from __future__ import annotations

import base64
import re
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import pytest

from tests.contract.webdav_scenarios import LOCK, PATCH
from tests.support import lambdas

pytestmark = pytest.mark.xdist_group("cloud")

URL_ID = "abcdefghijklmnopqrstuvwxyz012345"
DOMAIN = f"{URL_ID}.lambda-url.us-east-1.on.aws"
TEXT_TYPES = ("text/", "application/xml", "application/json")  # other bodies are sent as Base64


def make_event(method: str, address: str, content: bytes, headers: dict[str, str]) -> dict[str, Any]:
    """Return the event of a request: unlike that of the HTTP API, its path is as the client sent it."""
    parts = urlsplit(address)
    is_text = headers.get("content-type", "").startswith(TEXT_TYPES)
    forwarded = {
        "host": DOMAIN,
        "x-forwarded-proto": "https",
        "x-forwarded-port": "443",
        "x-forwarded-for": "203.0.113.7",
    }
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": parts.path,
        "rawQueryString": parts.query,
        "headers": forwarded | headers,
        "requestContext": {
            "accountId": "anonymous", "apiId": URL_ID, "domainName": DOMAIN, "domainPrefix": URL_ID,
            "http": {
                "method": method, "path": parts.path, "protocol": "HTTP/1.1", "sourceIp": "203.0.113.7",
                "userAgent": "sample/1.0",
            },
            "requestId": "e1506fd5-9e7b-434f-bd42-4f8fa224b599", "routeKey": "$default", "stage": "$default",
            "time": "28/Nov/2026:07:00:00 +0000", "timeEpoch": 1795849200000,
        },
        "body": content.decode() if is_text else base64.b64encode(content).decode(),
        "isBase64Encoded": not is_text,
    }  # fmt: skip


class Visitor:
    """A WebDAV client of the administrator. Another account would change the ids that the samples expect."""

    def __init__(self, cloud: lambdas.Cloud) -> None:
        self._function = cloud.get_function("DavFunction")

    def ask(
        self, method: str, path: str, content: bytes = b"", password: str = lambdas.ADMIN_PASSWORD, **headers: str
    ) -> Any:
        """Return the answer of the function. Keywords are headers, `_` for `-`."""
        basic = base64.b64encode(f"admin:{password}".encode()).decode()
        sent = {name.replace("_", "-"): text for name, text in headers.items()} | {"authorization": f"Basic {basic}"}
        return self._function(make_event(method, f"https://{DOMAIN}/dav{quote(path)}", content, sent))

    def send(self, method: str, path: str, content: bytes = b"", **headers: str) -> int:
        """Return the status of the answer."""
        status: int = self.ask(method, path, content, **headers)["statusCode"]
        return status


@pytest.fixture(scope="module")
def visitor(cloud: lambdas.Cloud) -> Visitor:
    """A client that may do all that WebDAV does."""
    assert cloud.run_setup()["Status"] == "SUCCESS"
    return Visitor(cloud)


@pytest.mark.parametrize("name", ["plain", "two words", "50% off", "a%20b", "é", "what?", "a+b#c"])
def test_every_verb_reaches_the_entry_of_its_name(visitor: Visitor, name: str) -> None:
    folder, content = f"/files/{name}", bytes(range(256))
    address = f"https://{DOMAIN}/dav{quote(folder)}"
    assert [visitor.send("MKCOL", folder), visitor.send("PUT", f"{folder}/a", content)] == [201, 201]
    answer = visitor.ask("GET", f"{folder}/a")
    assert (answer["statusCode"], base64.b64decode(answer["body"])) == (200, content)
    listing = visitor.ask("PROPFIND", folder, depth="1")
    assert listing["statusCode"] == 207
    paths = [unquote(path) for path in re.findall("<D:href>(.*?)</D:href>", listing["body"])]
    assert paths == [f"/dav{folder}/", f"/dav{folder}/a"]
    token = visitor.ask("LOCK", f"{folder}/a", LOCK.encode(), content_type="application/xml")["headers"]["lock-token"]
    assert visitor.send("PROPPATCH", f"{folder}/a", PATCH.encode(), content_type="text/xml") == 423
    assert visitor.send("UNLOCK", f"{folder}/a", lock_token=token) == 204
    assert visitor.send("PROPPATCH", f"{folder}/a", PATCH.encode(), content_type="text/xml") == 207
    assert visitor.send("COPY", f"{folder}/a", destination=f"{address}/b") == 201
    assert visitor.send("MOVE", f"{folder}/b", destination=f"{address}/c") == 201
    assert [visitor.send("HEAD", f"{folder}/c"), visitor.send("HEAD", f"{folder}/b")] == [200, 404]
    assert visitor.send("DELETE", folder) == 204


def test_wrong_password_is_challenged(visitor: Visitor) -> None:
    answer = visitor.ask("PROPFIND", "/", password="wrong")
    assert (answer["statusCode"], answer["headers"]["www-authenticate"].split()[0]) == (401, "Basic")


def test_destination_on_another_server_is_refused(visitor: Visitor) -> None:
    assert visitor.send("MOVE", "/files/x", destination="https://other.example.com/dav/files/y") == 502


def test_path_outside_of_webdav_is_refused(cloud: lambdas.Cloud) -> None:
    answer = cloud.get_function("DavFunction")(make_event("GET", f"https://{DOMAIN}/api/me", b"", {}))
    assert answer["statusCode"] == 405
