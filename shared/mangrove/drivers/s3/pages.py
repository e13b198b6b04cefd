"""Pages of an S3 listing: fetched from a signed URL, parsed directly into entries."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple
from urllib.parse import unquote_plus
from xml.etree import ElementTree  # from a server; expat limits the growth of entities

from mangrove.core.http_answers import HttpAnswer
from mangrove.core.paths import is_valid_name
from mangrove.core.problems import StorageProblem, Unreachable
from mangrove.drivers.base import BLOCK, Entry
from mangrove.drivers.s3.errors import make_problem

MAX_PAGE_BYTES = 32 << 20  # bytes of one page; 1,000 keys of the longest names are far smaller


class Page(NamedTuple):
    """A page of a listing.

    `next_start`: the start of the next page, "" at the end. The object of the folder itself is a file named "".
    """

    files: list[Entry]
    folders: list[str]
    next_start: str


def read_body(answer: HttpAnswer) -> bytes:
    """Return the body of a listing."""
    body = bytearray()
    try:
        while block := answer.read(BLOCK):
            body += block
            if len(body) > MAX_PAGE_BYTES:
                raise StorageProblem("a page of the listing is too large")
    finally:
        answer.close()
    return bytes(body)


def parse(body: bytes, prefix: str) -> Page:
    """Return the page in a ListObjects or ListObjectsV2 answer. Raise a StorageProblem for an error."""
    root, namespace = _parse_listing(body)
    encoded = root.findtext(f"{namespace}EncodingType", "") == "url"
    try:
        files = [_parse_file(item, namespace, prefix, encoded) for item in root.iterfind(f"{namespace}Contents")]
    except (KeyError, ValueError):
        raise StorageProblem("the S3 server lists an object without a usable key, size or time") from None
    folders = [
        _decode(item.text or "", encoded)[len(prefix) :].rstrip("/")
        for item in root.iterfind(f"{namespace}CommonPrefixes/{namespace}Prefix")
    ]
    next_start = ""
    if root.findtext(f"{namespace}IsTruncated", "") == "true":
        # NextMarker is the last name too, but rclone leaves it unencoded where AWS encodes it
        last = max([file.name for file in files] + [f"{folder}/" for folder in folders], key=str.encode, default="")
        next_start = root.findtext(f"{namespace}NextContinuationToken", "") or prefix + last
    visible = [file for file in files if not file.name or is_valid_name(file.name)]
    return Page(visible, list(filter(is_valid_name, folders)), next_start)


def has_objects(body: bytes) -> bool:
    """Return True if such an answer lists an object. Raise a StorageProblem for an error."""
    root, namespace = _parse_listing(body)
    return root.find(f"{namespace}Contents") is not None


def _parse_listing(body: bytes) -> tuple[ElementTree.Element, str]:
    """Return the root and the namespace of a listing."""
    try:
        root = ElementTree.fromstring(body) if body else ElementTree.Element("none")  # noqa: S314 - see the import
    except ElementTree.ParseError:
        raise Unreachable("the S3 server answers without a listing") from None
    namespace = root.tag.partition("}")[0] + "}" if root.tag.startswith("{") else ""
    if not root.tag.endswith("ListBucketResult"):
        raise make_problem(root.findtext(f"{namespace}Code", ""), 500, root.findtext(f"{namespace}Message", ""))
    return root, namespace


def _parse_file(item: ElementTree.Element, namespace: str, prefix: str, encoded: bool) -> Entry:
    fields = {child.tag: child.text or "" for child in item}
    name = _decode(fields[f"{namespace}Key"], encoded)[len(prefix) :]
    modified = datetime.fromisoformat(fields[f"{namespace}LastModified"]).timestamp()
    etag = fields.get(f"{namespace}ETag", "").strip('"')
    return Entry(name, int(fields[f"{namespace}Size"]), modified, False, etag=etag)


def _decode(text: str, encoded: bool) -> str:
    return unquote_plus(text) if encoded and ("%" in text or "+" in text) else text
