"""The largest requests that every route takes: up to the bounds of the OpenAPI document, and worse by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from mangrove.web.framework import MAX_JSON_VALUES
from tests.support.document import get_document

FILE_COUNT = 10_000
MAX_NAME_BYTES = 255  # bytes
MAX_PATH_BYTES = 4096
FOLDER = "/files/many"  # of FILE_COUNT files
DEEP = "/files/" + "d/" * 2000
HEAD_BYTES = 60_000  # bytes of a query or a header: a little less than a head may have
MAX_BODY_BYTES = 7 << 20


class Request(NamedTuple):
    """`why` is what is large in it."""

    why: str
    method: str
    target: str
    content: bytes = b""
    headers: Mapping[str, str] = {}


def name(number: int) -> str:
    """The longest name, another one for each number."""
    return f"{number:0>{MAX_NAME_BYTES}}"


NAMES = [name(number) for number in range(FILE_COUNT)]
WRONG = [*NAMES[1:], "none"]  # all are judged, and nothing is done
RENAMES = [{"src_name": name, "new_name": "n" + name[1:]} for name in WRONG]
HIDE = "\n".join(["(a|b|c|d){1,30}$"] * 5000)
URLS = [f"http://192.0.2.1/{name}" for name in NAMES]
KEYS = [f"unknown_{number}" for number in range(1000)]

BY_HAND: dict[str, list[tuple[str, Any]]] = {
    "POST /api/admin/meta/create": [("a rule of many patterns", {"path": "/files/x", "hide": HIDE, "h_sub": True})],
    "POST /api/admin/setting/save": [
        ("many settings", [{"key": key, "value": "x" * 4000, "type": "string"} for key in KEYS]),
        ("a long setting", [{"key": "announcement", "value": "x" * 1_000_000}]),
        ("many patterns", [{"key": "privacy_regs", "value": HIDE[:60_000]}]),
    ],
    "POST /api/admin/storage/create": [
        ("a long tree of addresses", {
            "mount_path": "/tree", "driver": "UrlTree",
            "addition": json.dumps({"url_structure": "\n".join(f"http://192.0.2.1/{i}" for i in range(9000))}),
        }),
        ("a deep tree of addresses", {
            "mount_path": "/deep", "driver": "UrlTree",
            "addition": json.dumps({"url_structure": "\n".join(" " * i + f"f{i}:" for i in range(700))}),
        }),
        ("an alias of many paths", {
            "mount_path": "/alias", "driver": "Alias",
            "addition": json.dumps({"paths": "\n".join(f"/files/{i}" for i in range(20_000))}),
        }),
        ("a large virtual storage", {
            "mount_path": "/virtual", "driver": "Virtual",
            "addition": json.dumps({"num_file": 10**9, "num_folder": 10**9}),
        }),
    ],
    "POST /api/fs/add_offline_download": [
        ("many addresses", {"path": "/files", "urls": [*URLS[1:], "gopher://x/"], "tool": "SimpleHttp"}),
    ],
    "POST /api/fs/archive/decompress": [
        ("many archives", {"src_dir": FOLDER, "dst_dir": "/files/x", "name": [f"{name[:-4]}.zip" for name in WRONG]}),
    ],
    "POST /api/fs/archive/list": [("many members", {"path": "/files/many.zip", "refresh": True})],
    "POST /api/fs/archive/meta": [("many members", {"path": "/files/many.zip", "refresh": True})],
    "POST /api/fs/batch_rename": [
        ("many names", {"src_dir": FOLDER, "rename_objects": RENAMES}),
        ("a deep folder", {"src_dir": DEEP, "rename_objects": RENAMES}),
    ],
    "POST /api/fs/copy": [
        ("many names", {"src_dir": FOLDER, "dst_dir": "/files/copies", "names": WRONG}),
        ("deep folders", {"src_dir": DEEP, "dst_dir": DEEP + "x", "names": NAMES}),
    ],
    "POST /api/fs/dirs": [("many files", {"path": FOLDER})],
    "POST /api/fs/get": [("many neighbours", {"path": f"{FOLDER}/{NAMES[0]}"}), ("many files", {"path": FOLDER})],
    "POST /api/fs/list": [
        ("many files", {"path": FOLDER, "refresh": True}),
        ("many files again", {"path": FOLDER}),
        ("a late page", {"path": FOLDER, "page": 2**53, "per_page": 2**53}),
        ("a deep folder", {"path": DEEP, "refresh": True}),
    ],
    "POST /api/fs/mkdir": [("a deep folder", {"path": DEEP})],
    "POST /api/fs/move": [
        ("many names", {"src_dir": FOLDER, "dst_dir": "/files/moved", "names": WRONG}),
        ("deep folders", {"src_dir": DEEP, "dst_dir": DEEP + "x", "names": NAMES}),
    ],
    "POST /api/fs/recursive_move": [("many files", {"src_dir": FOLDER, "dst_dir": "/files/moved"})],
    "POST /api/fs/regex_rename": [
        ("long names", {"src_dir": FOLDER, "src_name_regex": "^(.*)$", "new_name_regex": "$0" * 500}),
        ("a hard pattern", {"src_dir": FOLDER, "src_name_regex": "(a|0)*" * 150 + "b", "new_name_regex": "$1"}),
    ],
    "POST /api/fs/remove": [
        ("many names", {"dir": "/files/moved", "names": NAMES}),
        ("a deep folder", {"dir": DEEP, "names": NAMES}),
    ],
}  # fmt: skip


def _resolve(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in schema:
        schema = get_document()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def fill(schema: Mapping[str, Any], at: str = "", text: str = "a/", items: int = FILE_COUNT) -> Any:
    """The largest value of a schema; a list has at most `items`, and its texts are as long as names."""
    schema = _resolve(schema)
    kind = schema.get("type")
    if kind == "object":
        return {key: fill(item, key, text, items) for key, item in schema.get("properties", {}).items()}
    if kind == "array":
        item = fill(schema["items"], at, text, items)
        shorter = item[:MAX_NAME_BYTES] if isinstance(item, str) else item
        return [shorter] * min(items, MAX_BODY_BYTES // max(len(json.dumps(shorter)), 1), schema.get("maxItems", items))
    if kind == "integer":
        return 2**53
    if kind == "string" and "enum" not in schema:
        return (text * 300_000)[: schema.get("maxLength", MAX_PATH_BYTES)]
    return False if kind == "boolean" else None


def _list_bodies(operation: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if schema is None:
        return
    yield "deep paths", fill(schema)
    yield "long texts", fill(schema, text="é")
    if "[]" in json.dumps(fill(schema, items=0)):
        yield "wrong items", json.loads(json.dumps(fill(schema, text="")).replace('""', "5"))


def _list_queries(operation: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, str]]]:
    names = [parameter["name"] for parameter in operation.get("parameters", ()) if parameter["in"] == "query"]
    if names:
        share = HEAD_BYTES // len(names)
        yield "long texts", dict.fromkeys(names, "x" * share)
        yield "deep paths", dict.fromkeys(names, ("a/" * share)[: min(share, MAX_PATH_BYTES)])
        yield "many keys", dict.fromkeys(names, ("9," * share)[:share])


def list_heads(target: str) -> Iterator[Request]:
    """The largest heads; they do not depend on the route."""
    yield Request("a long header", "GET", target, headers={"authorization": "x" * HEAD_BYTES})
    yield Request("many headers", "GET", target, headers={f"x-{number}": "y" for number in range(5000)})
    yield Request("many parameters", "GET", f"{target}?{'&'.join(f'p{number}=' for number in range(8000))}")
    yield Request("a long path", "GET", f"{target}/{'x/' * (HEAD_BYTES // 2)}")


def list_requests(operation_name: str) -> Iterator[Request]:
    """The largest requests of an operation."""
    method, _, route = operation_name.partition(" ")
    operation = get_document()["paths"][route][method.lower()]
    paths = [DEEP[1:-1], FOLDER[1:], "x" * HEAD_BYTES] if "{path}" in route else [""]
    for path in paths:
        yield Request("a long path", method, route.replace("{path}", path).replace("{kind}", "copy"))
    target = route.replace("{path}", FOLDER[1:]).replace("{kind}", "copy")
    for why, query in _list_queries(operation):
        text = "&".join(f"{key}={quote(value, safe='/,')}" for key, value in query.items())
        yield Request(f"{why} in the query", method, f"{target}?{text}")
    for why, body in [*_list_bodies(operation), *BY_HAND.get(operation_name, ())]:
        yield Request(f"{why} in the body", method, target, json.dumps(body, ensure_ascii=False).encode())
    if method == "PUT":
        for path in (DEEP + "f", "/files/" + "x" * 40_000, "/files/%" + "41" * 20_000):
            yield Request("a long File-Path", method, target, bytes(1 << 22), {"file-path": path})
    elif "requestBody" in operation:
        many = "[" + '{"a":1},' * (MAX_JSON_VALUES // 2 - 2) + "1]"
        yield Request("very many values in the body", method, target, many.encode())
