"""Paths of every kind through a function, in events as an HTTP API sends them."""

from __future__ import annotations

import asyncio
import base64
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from functions.api.downloads.app import handler as download
from functions.api.uploads.app import handler as upload
from mangrove.core import runtime
from mangrove.core.runtime import Runtime
from mangrove.identity import tokens
from mangrove.identity.rights import Right
from mangrove.tree.listing import objects
from mangrove.tree.operations import archives
from tests.support.awkward_names import NAMES, make_event
from tests.support.platforms import use_cloud
from tests.unit.tree.environment import TreeEnv

BASE = "https://mangrove.example.com"


@pytest.fixture
def tree(records: None, tmp_path: Path) -> Iterator[TreeEnv]:
    """A tree in a function of the cloud, whose event loop is that of the test."""
    with runtime.use(Runtime()):
        use_cloud()
        env = TreeEnv(tmp_path)
        loop = env.run(get_loop())
        asyncio.set_event_loop(loop)
        try:
            yield env
        finally:
            asyncio.set_event_loop(None)
            env.close()


async def get_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def read(answer: dict[str, Any]) -> bytes:
    body: str = answer["body"]
    return base64.b64decode(body) if answer["isBase64Encoded"] else body.encode()


def fetch(url: str) -> tuple[int, bytes]:
    answer = download(make_event("GET", url), None)
    return answer["statusCode"], read(answer)


def test_every_name_is_downloaded_by_the_links_that_are_given_out(tree: TreeEnv) -> None:
    root = tree.mount_disk("/disk", web_proxy=True)
    tree.set(sign_all="true")
    for name in NAMES:
        (root / name).write_text(f"in {name}")
    for name in NAMES:
        entry = tree.run(objects.get_object(tree.access(f"/disk/{name}"), BASE))
        assert fetch(entry["raw_url"]) == (200, f"in {name}".encode()), name
        assert fetch(entry["raw_url"].replace("/p/", "/d/", 1)) == (200, f"in {name}".encode()), name
        if "?" not in name:
            address = f"{BASE}/d/disk/{quote(name)}?sign={entry['sign']}"
            assert fetch(address) == (200, f"in {name}".encode()), name


def test_every_name_of_an_archive_and_in_it(tree: TreeEnv) -> None:
    root = tree.mount_disk("/disk")
    tree.set(sign_all="true")
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in NAMES:
            archive.writestr(f"in/{name}", name)
    for name in ("50%25 off.zip", "a%41.zip", "what?.zip", "+#.zip", "😀.zip"):
        (root / name).write_bytes(content.getvalue())
        meta = tree.run(archives.get_meta(tree.access(f"/disk/{name}", Right.READ_ARCHIVES), "", BASE, "somebody"))
        joint = "&" if "?" in meta["raw_url"] else "?"
        for inner in NAMES:
            url = f"{meta['raw_url']}{joint}inner={quote(f'/in/{inner}', safe='')}&sign={meta['sign']}"
            assert fetch(url) == (200, inner.encode()), (name, inner)


def test_every_name_is_uploaded_by_its_header(tree: TreeEnv) -> None:
    root = tree.mount_disk("/disk")
    headers = {"authorization": tokens.issue(tree.user), "content-type": "text/plain"}
    for name in NAMES:
        event = make_event("PUT", f"{BASE}/api/fs/put", headers | {"file-path": quote(f"/disk/{name}")}, name)
        assert '"code":200' in read(upload(event, None)).decode(), name
    assert {path.name: path.read_text() for path in root.iterdir()} == {name: name for name in NAMES}
