"""A proxy in front of the records engine and of moto that notes which IAM rights the calls of one function need."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from shutil import copyfileobj
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.etree import ElementTree

Right = tuple[str, str]
"""An action, and the table, `table/index/name`, `bucket`, `bucket/key`, secret or machine that it is for."""

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
    ("POST", "delete"): "DeleteObject",
}
WITH_HEADER = {"x-amz-acl": "PutObjectAcl", "x-amz-tagging": "PutObjectTagging"}
PARAMETERS = {  # of a query, that name no subresource
    "prefix", "delimiter", "encoding-type", "marker", "max-keys", "list-type", "continuation-token", "start-after",
    "fetch-owner", "x-id", "max-parts", "part-number-marker", "key-marker", "version-id-marker",
}  # fmt: skip


def find_rights(method: str, path: str, headers: dict[str, str], body: bytes) -> set[Right]:
    """The rights a call needs. One that is not known here needs a right that no policy grants."""
    service, _, operation = headers.get("x-amz-target", "").partition(".")
    if service.startswith("DynamoDB"):
        return _find_dynamodb_rights(operation, json.loads(body))
    if service == "secretsmanager":
        return {(f"secretsmanager:{operation}", json.loads(body)["SecretId"])}
    if service == "AWSStepFunctions":
        return {(f"states:{operation}", json.loads(body)["stateMachineArn"])}
    return _find_s3_rights(method, path, headers, body)


def _find_dynamodb_rights(operation: str, body: dict[str, Any]) -> set[Right]:
    if operation in ("TransactWriteItems", "TransactGetItems"):
        items = [pair for item in body["TransactItems"] for pair in item.items()]
        return {(f"dynamodb:{TRANSACTED[kind]}", item["TableName"]) for kind, item in items}
    tables = body.get("RequestItems") or [body.get("TableName", "*")]
    index = f"/index/{body['IndexName']}" if "IndexName" in body else ""
    return {(f"dynamodb:{operation}", table + index) for table in tables}


def _find_s3_rights(method: str, path: str, headers: dict[str, str], body: bytes) -> set[Right]:
    url = urlsplit(path)
    object_path = unquote(url.path.lstrip("/"))
    bucket, _, key = object_path.partition("/")
    subresources = {name for name, _ in parse_qsl(url.query, keep_blank_values=True)} - PARAMETERS
    call = method, ",".join(sorted(name for name in subresources if not name.startswith(("X-Amz-", "response-"))))
    action = "s3:" + (WITH_KEY if key else WITHOUT_KEY).get(call, f"unknown {call}")
    if call == ("POST", "delete"):
        objects = ElementTree.fromstring(body).iterfind(".//{*}Object")
        found = {(action + _tell_version(one), f"{bucket}/{one.findtext('{*}Key')}") for one in objects}
    else:
        found = {(action, object_path if key else bucket)}
    found |= {(f"s3:{extra}", object_path) for header, extra in WITH_HEADER.items() if header in headers}
    if source := headers.get("x-amz-copy-source"):
        found.add(("s3:GetObject", unquote(source).lstrip("/")))
    return found


def _tell_version(named: ElementTree.Element) -> str:
    return "" if named.find("{*}VersionId") is None else "Version"


class _ProxyHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Recorder

    def _forward(self) -> None:
        assert "transfer-encoding" not in self.headers
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length", 0)))
        needs = find_rights(self.command, self.path, headers, body)
        self.server.used.update(needs)
        to_records = headers.get("x-amz-target", "").startswith("DynamoDB")
        behind = urlsplit(self.server.records if to_records else self.server.aws).netloc
        with closing(HTTPConnection(behind, timeout=60)) as connection:
            forwarded = {name: value for name, value in headers.items() if name not in ("expect", "connection")}
            connection.request(self.command, self.path, body or None, forwarded)
            answer = connection.getresponse()
            self.server.on_call(needs)
            self.send_response_only(answer.status, answer.reason)
            for name, value in answer.getheaders():
                if name.lower() not in ("connection", "transfer-encoding"):
                    self.send_header(name, value)
            if answer.length is None:
                self.send_header("connection", "close")
            self.end_headers()
            copyfileobj(answer, self.wfile)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = do_OPTIONS = _forward

    def log_message(self, *_: Any) -> None:
        pass


class Recorder(ThreadingHTTPServer):
    """`used` gathers what was needed so far; `on_call` is called for each call before its caller gets the answer."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, records: str, aws: str, used: set[Right], on_call: Callable[[set[Right]], None]) -> None:
        super().__init__(("127.0.0.1", 0), _ProxyHandler)
        self.records = records
        self.aws = aws
        self.used = used
        self.on_call = on_call

    def handle_error(self, *_: Any) -> None:
        """A caller that was killed does not take its answer."""
