"""The sample events in `events/`, from the rows of `events/samples.yaml`: one per route and per state."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import yaml

from deployment.generate import ROOT, Files

ROWS = "events/samples.yaml"
HOST = "mangrove.example.com"
ADDRESS = "203.0.113.7"
AGENT = "sample/1.0"
TOKEN = "{{token}}"
HEADERS = {
    "host": HOST,
    "user-agent": AGENT,
    "accept": "*/*",
    "x-forwarded-proto": "https",
    "x-forwarded-for": ADDRESS,
    "x-forwarded-port": "443",
}


@dataclass(frozen=True, slots=True)
class Sample:
    """A row of the file."""

    name: str  # group/request
    route: str = ""  # METHOD path; "" for a state of a state machine
    method: str = ""  # if the method of the route is ANY
    path: str = ""  # if the path of the route has parameters
    query: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    token: str = TOKEN
    body: Any = None  # a text, or a value that is sent as JSON


def read_samples() -> list[Sample]:
    """Return the rows, in the order in which they can be sent."""
    return [_parse(row) for row in yaml.safe_load((ROOT / ROWS).read_text())]


def _parse(row: dict[str, Any]) -> Sample:
    (name, route), *others = row.items() if isinstance(row, dict) else ((row, ""),)
    return Sample(name, route or "", **dict(others))


def generate_samples() -> Files:
    """Derive one file per row."""
    return {f"events/{sample.name}.json": _render(sample) for sample in read_samples()}


def _render(sample: Sample) -> str:
    event = make_event(sample) if sample.route else {"tid": "{{tid}}"}
    return json.dumps(event, indent=2, ensure_ascii=False) + "\n"


def make_event(sample: Sample) -> dict[str, Any]:
    """Return the event that API Gateway sends for a request."""
    method, path = sample.route.split(" ")
    path = sample.path or path
    http = {
        "method": sample.method or method,
        "path": path,
        "protocol": "HTTP/1.1",
        "sourceIp": ADDRESS,
        "userAgent": AGENT,
    }
    event: dict[str, Any] = {"version": "2.0", "routeKey": sample.route, "rawPath": path}
    event |= {"rawQueryString": sample.query, "headers": _make_headers(sample)}
    if sample.query:
        event["queryStringParameters"] = dict(parse_qsl(sample.query, keep_blank_values=True))
    event["requestContext"] = {
        "accountId": "123456789012",
        "apiId": "a1b2c3d4e5",
        "domainName": HOST,
        "domainPrefix": "mangrove",
        "http": http,
        "requestId": "JKJaXmPLvHcESHA=",
        "routeKey": sample.route,
        "stage": "$default",
        "time": "21/Nov/2026:07:00:00 +0000",
        "timeEpoch": 1795244400000,
    }
    if sample.body:
        event["body"] = _render_body(sample.body)
    return event | {"isBase64Encoded": False}


def _make_headers(sample: Sample) -> dict[str, str]:
    headers = HEADERS | ({"authorization": sample.token} if sample.token else {}) | sample.headers
    if sample.body is None:
        return headers
    if not isinstance(sample.body, str):
        headers["content-type"] = "application/json"
    return headers | {"content-length": str(len(_render_body(sample.body).encode()))}


def _render_body(body: Any) -> str:
    return body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
