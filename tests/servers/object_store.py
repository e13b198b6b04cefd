"""A small S3 in a process of its own, for tests with thousands of requests. It finds a page of a listing immediately,
and delays answers on request.

Objects are in memory; a copy, a removal and a put are refused as AWS does.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import subprocess
import sys
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, unquote
from uuid import uuid4
from xml.etree import ElementTree

PAGE = 1000
LAST_CHARACTER = "\U0010ffff"  # sorts behind every key that begins with what is before it
Headers = Mapping[str, str]
Answer = tuple[int, dict[str, str], bytes]


class Object(NamedTuple):
    content: bytes
    etag: str
    modified: datetime

    @classmethod
    def of(cls, content: bytes, etag: str = "") -> Object:
        etag = etag or hashlib.md5(content, usedforsecurity=False).hexdigest()
        return cls(content, etag, datetime.now(UTC).replace(microsecond=0))


class Refused(Exception):
    def __init__(self, status: int, code: str) -> None:
        self.answer = status, {}, f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()


class Bucket:
    def __init__(self) -> None:
        self.keys: list[str] = []
        self.objects: dict[str, Object] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}

    def get(self, key: str) -> Object:
        if key not in self.objects:
            raise Refused(404, "NoSuchKey")
        return self.objects[key]

    def put(self, key: str, stored: Object, headers: Headers) -> Object:
        if headers.get("if-none-match") == "*" and key in self.objects:
            raise Refused(412, "PreconditionFailed")
        if key not in self.objects:
            insort(self.keys, key)
        self.objects[key] = stored
        return stored

    def remove(self, key: str, headers: Headers) -> None:
        if key not in self.objects:
            return
        _check_match(self.objects[key], headers, "if-match")
        del self.objects[key]
        del self.keys[bisect_left(self.keys, key)]

    def list(self, query: Mapping[str, str]) -> bytes:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        most, after = int(query.get("max-keys", PAGE)), query.get("marker", query.get("start-after", ""))
        after = query.get("continuation-token", after)
        at = bisect_left(self.keys, max(prefix, after + "\0" if after else ""))
        rows, last, count = [], "", 0
        while at < len(self.keys) and self.keys[at].startswith(prefix) and count < most:
            key = last = self.keys[at]
            head, slash, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
            count, at = count + 1, at + 1
            if slash:
                last = prefix + head + slash + LAST_CHARACTER
                rows.append(f"<CommonPrefixes><Prefix>{quote(prefix + head + slash)}</Prefix></CommonPrefixes>")
                at = bisect_left(self.keys, last)
                continue
            stored = self.objects[key]
            rows.append(
                f"<Contents><Key>{quote(key)}</Key><LastModified>{stored.modified:%Y-%m-%dT%H:%M:%S.000Z}</LastModified>"
                f"<ETag>&quot;{stored.etag}&quot;</ETag><Size>{len(stored.content)}</Size></Contents>"
            )
        is_cut = at < len(self.keys) and self.keys[at].startswith(prefix)
        token = f"<NextContinuationToken>{last}</NextContinuationToken>" if is_cut else ""
        head = f"<EncodingType>url</EncodingType><IsTruncated>{str(is_cut).lower()}</IsTruncated>{token}"
        return f"<ListBucketResult>{head}{''.join(rows)}</ListBucketResult>".encode()


class Server:
    """`milliseconds`: after which each of these is answered, by what is asked: HEAD, LIST and all others."""

    def __init__(self, milliseconds: Mapping[str, float]) -> None:
        self.milliseconds = milliseconds
        self.buckets: dict[str, Bucket] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body, more = bytearray(), True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        query = {name: values[0] for name, values in parse_qs(scope["query_string"].decode(), True).items()}
        _, bucket, *key = unquote(scope["raw_path"].decode()).split("/", 2)
        word = "LIST" if scope["method"] == "GET" and not "".join(key) else scope["method"]
        if late := self.milliseconds.get(word, self.milliseconds.get("", 0)):
            await asyncio.sleep(late / 1000)
        try:
            status, more_headers, content = self._answer(
                scope["method"], bucket, "".join(key), query, headers, bytes(body)
            )
        except Refused as refused:
            status, more_headers, content = refused.answer
        shown = {"content-length": str(len(content))} | more_headers
        lines = [(name.encode(), value.encode()) for name, value in shown.items()]
        await send({"type": "http.response.start", "status": status, "headers": lines})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else content})

    def _answer(self, method: str, name: str, key: str, query: dict[str, str], headers: Headers, body: bytes) -> Answer:
        if not key:
            return self._answer_bucket(method, name, query, body)
        bucket = self.buckets[name]
        if "uploads" in query or "uploadId" in query:
            return self._answer_upload(bucket, method, key, query, headers, body)
        if method == "DELETE":
            bucket.remove(key, headers)
            return 204, {}, b""
        if method == "PUT":
            source = headers.get("x-amz-copy-source")
            stored = Object.of(body) if source is None else Object.of(*self._find_source(source, headers)[:2])
            etag = bucket.put(key, stored, headers).etag
            copied = f"<CopyObjectResult><ETag>&quot;{etag}&quot;</ETag></CopyObjectResult>".encode()
            return 200, {"etag": f'"{etag}"'}, b"" if source is None else copied
        stored = bucket.get(key)
        _check_match(stored, headers, "if-match")
        shown = {"etag": f'"{stored.etag}"', "last-modified": format_datetime(stored.modified, usegmt=True)}
        if "range" not in headers:
            return 200, shown, stored.content
        first, _, last = headers["range"].removeprefix("bytes=").partition("-")
        part = stored.content[int(first) : int(last or len(stored.content)) + 1]
        end = int(first) + len(part) - 1
        return 206, shown | {"content-range": f"bytes {first}-{end}/{len(stored.content)}"}, part

    def _find_source(self, text: str, headers: Headers) -> Object:
        name, _, key = unquote(text).lstrip("/").partition("/")
        source = self.buckets[name].get(key)
        _check_match(source, headers, "x-amz-copy-source-if-match")
        return source

    def _answer_bucket(self, method: str, name: str, query: dict[str, str], body: bytes) -> Answer:
        if method == "PUT":
            self.buckets[name] = Bucket()
            return 200, {}, b""
        bucket = self.buckets[name]
        if "fill" in query:  # past the protocol: so many empty objects below a prefix
            bucket.keys = sorted(f"{query['fill']}{number:07}" for number in range(int(query["count"])))
            bucket.objects = dict.fromkeys(bucket.keys, Object.of(b"x"))
            return 200, {}, b""
        if method == "POST":
            keys = [
                element.text or "" for element in ElementTree.fromstring(body).iter() if element.tag.endswith("Key")
            ]
            for key in keys:
                bucket.remove(key, {})
            return 200, {}, b"<DeleteResult/>"
        return 200, {}, b"<ListMultipartUploadsResult/>" if "uploads" in query else bucket.list(query)

    def _answer_upload(
        self, bucket: Bucket, method: str, key: str, query: dict[str, str], headers: Headers, body: bytes
    ) -> Answer:
        if "uploads" in query:
            id = uuid4().hex
            bucket.uploads[id] = {}
            return 200, {}, f"<Init><UploadId>{id}</UploadId></Init>".encode()
        if query["uploadId"] not in bucket.uploads:
            raise Refused(404, "NoSuchUpload")
        parts = bucket.uploads[query["uploadId"]]
        if method == "PUT":
            parts[int(query["partNumber"])] = body
            return 200, {"etag": f'"{Object.of(body).etag}"'}, b""
        if method == "POST":
            content = b"".join(parts[number] for number in sorted(parts))
            etag = bucket.put(key, Object.of(content, f"{uuid4().hex}-{len(parts)}"), headers).etag
            answer = f"<Done><ETag>&quot;{etag}&quot;</ETag></Done>".encode()
        else:
            answer = b""
        del bucket.uploads[query["uploadId"]]
        return 200 if answer else 204, {}, answer


def _check_match(stored: Object, headers: Headers, name: str) -> None:
    if headers.get(name, stored.etag).strip('"') != stored.etag:
        raise Refused(412, "PreconditionFailed")


@contextmanager
def object_store(**milliseconds: float) -> Iterator[str]:
    """The address of one that ends with the context; `milliseconds` as `Server`, `other` for all that are not named."""
    from tests import servers

    port = servers.free_port()
    late = [f"{name.replace('other', '')}={value}" for name, value in milliseconds.items()]
    command = [sys.executable, "-m", __name__, str(port), *late]
    with subprocess.Popen(command) as child:
        try:
            servers.wait_for(port, 60)
            yield f"http://127.0.0.1:{port}"
        finally:
            child.kill()


def main() -> None:
    import uvicorn

    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("milliseconds", nargs="*")
    chosen = parser.parse_args()
    late = {name: float(value) for name, _, value in (text.partition("=") for text in chosen.milliseconds)}
    uvicorn.run(Server(late), host="127.0.0.1", port=chosen.port, log_level="error", lifespan="off", access_log=False)


if __name__ == "__main__":
    main()
