"""Pages of an S3 listing: fetched by a signed address, parsed straight into entries."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple
from urllib.parse import unquote_plus
from xml.etree import ElementTree  # a server's own answer; expat limits the growth of entities

import httpx

from mangrove.drivers.base import Entry
from mangrove.drivers.s3.errors import problem
from mangrove.problems import StorageProblem, Unreachable

LARGEST = 32 << 20  # bytes of one page; 1,000 keys of the longest names stay far below


class Page(NamedTuple):
    """`following` is where the next page starts, "" at the end. A marker of the folder itself is an entry named ""."""

    files: list[Entry]
    folders: list[str]
    following: str


async def fetch(client: httpx.AsyncClient, url: str) -> tuple[int, bytes]:
    """Status and body of a GET."""
    body = bytearray()
    async with client.stream("GET", url) as answer:
        async for chunk in answer.aiter_bytes():
            body += chunk
            if len(body) > LARGEST:
                raise StorageProblem("a page of the listing is too large")
    return answer.status_code, bytes(body)


def parse(status: int, body: bytes, prefix: str) -> Page:
    """The page in a ListObjects or ListObjectsV2 answer; a StorageProblem when it is an error."""
    try:
        root = ElementTree.fromstring(body) if body else ElementTree.Element("none")  # noqa: S314
    except ElementTree.ParseError:
        raise Unreachable(f"the S3 server answers {status} with something else than a listing") from None
    space = root.tag.partition("}")[0] + "}" if root.tag.startswith("{") else ""
    if status != 200 or not root.tag.endswith("ListBucketResult"):
        code, message = root.findtext(f"{space}Code", ""), root.findtext(f"{space}Message", "")
        raise problem(code, status if status != 200 else 500, message)
    encoded = root.findtext(f"{space}EncodingType", "") == "url"
    try:
        files = [_file(item, space, prefix, encoded) for item in root.iterfind(f"{space}Contents")]
    except (KeyError, ValueError):
        raise StorageProblem("the S3 server lists an object without a usable key, size or time") from None
    folders = [
        _plain(item.text or "", encoded)[len(prefix) :].rstrip("/")
        for item in root.iterfind(f"{space}CommonPrefixes/{space}Prefix")
    ]
    following = ""
    if root.findtext(f"{space}IsTruncated", "") == "true":
        # NextMarker is the last name too, but rclone leaves it unencoded where AWS encodes it
        last = max([file.name for file in files] + [f"{folder}/" for folder in folders], key=str.encode, default="")
        following = root.findtext(f"{space}NextContinuationToken", "") or prefix + last
    return Page(
        [file for file in files if not file.name or _usable(file.name)], list(filter(_usable, folders)), following
    )


def _file(item: ElementTree.Element, space: str, prefix: str, encoded: bool) -> Entry:
    facts = {child.tag: child.text or "" for child in item}
    name = _plain(facts[f"{space}Key"], encoded)[len(prefix) :]
    modified = datetime.fromisoformat(facts[f"{space}LastModified"]).timestamp()
    etag = facts.get(f"{space}ETag", "").strip('"')
    return Entry(name, int(facts[f"{space}Size"]), modified, False, etag=etag)


def _plain(text: str, encoded: bool) -> str:
    return unquote_plus(text) if encoded and ("%" in text or "+" in text) else text


def _usable(name: str) -> bool:
    """Whether the tree can show an entry of this name."""
    return bool(name) and name not in (".", "..") and not any(letter in "/\\\x7f" or letter < " " for letter in name)
