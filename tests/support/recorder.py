"""A proxy in front of the records engine and of moto: it notes what one function calls and which IAM rights that needs,
and refuses as AWS does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from shutil import copyfileobj
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.etree import ElementTree

KEY_MARK = "/key/"
Right = tuple[str, str]
"""An action, and the table, `table/index/name`, `bucket`, `bucket/key`, secret or machine that it is for.

A call for counters has the table and the heads of their keys: `table/key/slots#`, `table/key/failure#,mark#`.
"""

TRANSACTED = {
    "Get": "GetItem", "Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem",
    "ConditionCheck": "ConditionCheckItem",
}  # fmt: skip
WITH_KEY = {  # method and subresources → action
    ("GET", ""): "GetObject",
    ("HEAD", ""): "GetObject",
    ("PUT", ""): "PutObject",
    ("DELETE", ""): "DeleteObject",
    ("POST", "uploads"): "PutObject",
    ("PUT", "partNumber,uploadId"): "PutObject",
    ("POST", "uploadId"): "PutObject",
    ("DELETE", "uploadId"): "AbortMultipartUpload",
    ("GET", "uploadId"): "ListMultipartUploadParts",
}
WITHOUT_KEY = {
    ("GET", ""): "ListBucket",
    ("HEAD", ""): "ListBucket",
    ("GET", "uploads"): "ListBucketMultipartUploads",
    ("GET", "versions"): "ListBucketVersions",
    ("GET", "versioning"): "GetBucketVersioning",
    ("POST", "delete"): "DeleteObject",
}
SERVICES = {"secretsmanager": "secretsmanager", "AWSStepFunctions": "states", "AWSEvents": "events"}
DENIED = "AccessDeniedException"
THROTTLED = "ThrottlingException"
S3_WORDS = {DENIED: ("AccessDenied", 403), THROTTLED: ("SlowDown", 503)}
WITH_HEADER = {"x-amz-acl": "PutObjectAcl", "x-amz-tagging": "PutObjectTagging"}
PARAMETERS = {  # of a query, that name no subresource
    "prefix", "delimiter", "encoding-type", "marker", "max-keys", "list-type", "continuation-token", "start-after",
    "fetch-owner", "x-id", "max-parts", "part-number-marker", "key-marker", "version-id-marker", "versionId",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Call:
    """One call, as AWS bills it. `operation`: `dynamodb:GetItem`, `s3:GET`, …; `tables`: one for each item of it."""

    operation: str
    tables: tuple[str, ...] = ()


def name_call(method: str, path: str, headers: dict[str, str], body: bytes) -> Call:
    """Return the billed call; a LIST of a bucket is an operation of its own."""
    service, _, operation = headers.get("x-amz-target", "").partition(".")
    if not service:
        has_key = "/" in urlsplit(path).path.strip("/")
        return Call(f"s3:{'LIST' if method == 'GET' and not has_key else method}")
    if not service.startswith("DynamoDB"):
        return Call(f"{SERVICES[service]}:{operation}")
    return Call(f"dynamodb:{operation}", tuple(_list_tables(json.loads(body))))


def _list_tables(body: dict[str, Any]) -> Iterator[str]:
    for item in body.get("TransactItems", ()):
        yield from (request["TableName"] for request in item.values())
    for table, requests in body.get("RequestItems", {}).items():
        yield from (table for _ in (requests["Keys"] if isinstance(requests, dict) else requests))
    if "TableName" in body:
        yield body["TableName"]


def find_rights(method: str, path: str, headers: dict[str, str], body: bytes) -> set[Right]:
    """The rights a call needs. One that is not known here needs a right that no policy grants."""
    service, _, operation = headers.get("x-amz-target", "").partition(".")
    if service.startswith("DynamoDB"):
        return _find_dynamodb_rights(operation, json.loads(body))
    if service == "secretsmanager":
        return {(f"secretsmanager:{operation}", json.loads(body)["SecretId"])}
    if service == "AWSEvents":
        return {(f"events:{operation}", entry["EventBusName"]) for entry in json.loads(body)["Entries"]}
    if service == "AWSStepFunctions":
        return {(f"states:{operation}", json.loads(body)["stateMachineArn"])}
    return _find_s3_rights(method, path, headers, body)


def _find_dynamodb_rights(operation: str, body: dict[str, Any]) -> set[Right]:
    if operation in ("TransactWriteItems", "TransactGetItems"):
        items = [pair for item in body["TransactItems"] for pair in item.items()]
        return {(f"dynamodb:{TRANSACTED[kind]}", item["TableName"] + _find_key(kind, item)) for kind, item in items}
    if "RequestItems" in body:
        return {
            (f"dynamodb:{operation}", table + _format_heads(table, _list_batch_keys(requests)))
            for table, requests in body["RequestItems"].items()
        }
    index = f"/index/{body['IndexName']}" if "IndexName" in body else ""
    return {(f"dynamodb:{operation}", body.get("TableName", "*") + index + _find_key(operation, body))}


def _list_batch_keys(requests: Any) -> list[dict[str, Any]]:
    """Return the keys of a batch that reads a table; none of one that writes, which no counter is in."""
    return requests["Keys"] if isinstance(requests, dict) else []


def _find_key(operation: str, body: dict[str, Any]) -> str:
    if operation.removesuffix("Item") not in ("Get", "Put", "Update", "Delete"):
        return ""
    return _format_heads(body["TableName"], [body.get("Key") or body.get("Item", {})])


def _format_heads(table: str, keys: list[dict[str, Any]]) -> str:
    """Return the heads of the keys of counters, without what names a user, a task or an address; "" for others."""
    if not table.endswith("-counters"):
        return ""
    return KEY_MARK + ",".join(sorted({_find_head(key["key"]["S"]) for key in keys}))


def _find_head(key: str) -> str:
    head, mark, _ = key.partition("#")
    return key if head == "id" else head + mark


def _find_s3_rights(method: str, path: str, headers: dict[str, str], body: bytes) -> set[Right]:
    url = urlsplit(path)
    object_path = unquote(url.path.lstrip("/"))
    bucket, _, key = object_path.partition("/")
    of_version = "Version" if key and "versionId" in dict(parse_qsl(url.query)) else ""
    subresources = {name for name, _ in parse_qsl(url.query, keep_blank_values=True)} - PARAMETERS
    call = method, ",".join(sorted(name for name in subresources if not name.startswith(("X-Amz-", "response-"))))
    action = "s3:" + (WITH_KEY if key else WITHOUT_KEY).get(call, f"unknown {call}")
    if call == ("POST", "delete"):
        objects = ElementTree.fromstring(body).iterfind(".//{*}Object")
        rights = {(action + _tell_version(element), f"{bucket}/{element.findtext('{*}Key')}") for element in objects}
    else:
        rights = {(action + of_version, object_path if key else bucket)}
    rights |= {(f"s3:{extra}", object_path) for header, extra in WITH_HEADER.items() if header in headers}
    if source := headers.get("x-amz-copy-source"):
        source_path, _, version = source.partition("?versionId=")
        rights.add((f"s3:GetObject{'Version' if version else ''}", unquote(source_path).lstrip("/")))
    return rights


def _tell_version(named: ElementTree.Element) -> str:
    return "" if named.find("{*}VersionId") is None else "Version"


class Observer(Protocol):
    """An observer that is told of calls, and judges them."""

    def judge(self, needs: set[Right]) -> str:
        """The error that is answered to a call that needs that; "" for none."""
        ...

    def hides_absence(self, needs: set[Right]) -> bool:
        """Return True if a missing object is answered like one that may not be read."""
        ...

    def note_call(self, call: Call, needs: set[Right]) -> None:
        """A call was made; its caller has no answer yet."""
        ...


class _ProxyHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Recorder

    def _forward(self) -> None:
        assert "transfer-encoding" not in self.headers
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length", 0)))
        needs, observer = find_rights(self.command, self.path, headers, body), self.server.observer
        target = headers.get("x-amz-target", "")
        if error := observer.judge(needs):
            self._refuse(error, bool(target))
            return
        behind = urlsplit(self.server.records if target.startswith("DynamoDB") else self.server.aws).netloc
        with closing(HTTPConnection(behind, timeout=60)) as connection:
            forwarded = {name: value for name, value in headers.items() if name not in ("expect", "connection")}
            connection.request(self.command, self.path, body or None, forwarded)
            answer = connection.getresponse()
            observer.note_call(name_call(self.command, self.path, headers, body), needs)
            if answer.status == 404 and not target and observer.hides_absence(needs):
                self._refuse(DENIED, False)
                return
            self.send_response_only(answer.status, answer.reason)
            for name, value in answer.getheaders():
                if name.lower() not in ("connection", "transfer-encoding"):
                    self.send_header(name, value)
            if answer.length is None:
                self.send_header("connection", "close")
            self.end_headers()
            copyfileobj(answer, self.wfile)

    def _refuse(self, error: str, in_json: bool) -> None:
        word, status = (error, 400) if in_json else S3_WORDS[error]
        text = (
            json.dumps({"__type": word, "message": word})
            if in_json
            else f"<Error><Code>{word}</Code><Message>{word}</Message></Error>"
        )
        self.send_response_only(status)
        self.send_header("content-length", str(len(text)))
        self.send_header("content-type", "application/x-amz-json-1.0" if in_json else "application/xml")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text.encode())

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = do_OPTIONS = _forward

    def log_message(self, *_: Any) -> None:
        pass


class Recorder(ThreadingHTTPServer):
    """In front of the records engine and AWS, for one function."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, records: str, aws: str, observer: Observer) -> None:
        super().__init__(("127.0.0.1", 0), _ProxyHandler)
        self.records = records
        self.aws = aws
        self.observer = observer

    def handle_error(self, *_: Any) -> None:
        """A caller that was killed does not take its answer."""
