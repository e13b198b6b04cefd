"""Mixed work on one real service for SOAK_SECONDS: nothing breaks, every byte is right, and memory is printed.

`SOAK_SECONDS=600 make crash` is the long run; with SOAK_REST_SECONDS it is watched for so long afterwards.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import random
import re
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from PIL import Image

from tests.servers import make_bucket, moto_s3, s3_options
from tests.support.proc import get_pss
from tests.support.service import Client, Service, run_service

SOAK_SECONDS = float(os.environ.get("SOAK_SECONDS", "5"))
REST_SECONDS = float(os.environ.get("SOAK_REST_SECONDS", "0"))
SAMPLES = 20  # lines that are printed
TASK_SECONDS = 120.0
MAX_FILE_BYTES = 4 << 20  # bytes of a file
LISTED_FILES = 3000  # files of the folder that is listed
ACTIVE_STATES, SUCCEEDED = {0, 1, 3}, 2


@dataclass
class Soak:
    """The service under work. `done`: how often each kind of work was finished."""

    service: Service
    folder: Path
    end: float
    done: Counter[str] = field(default_factory=Counter)

    def path(self, mount: str) -> str:
        """A new place of its own in a storage."""
        return f"{mount}/{uuid4().hex}"


def make_bytes(largest: int = MAX_FILE_BYTES) -> bytes:
    return random.randbytes(random.randrange(1, largest))


def put(client: Client, path: str, content: bytes) -> None:
    answer = client.put(path, content)
    assert answer["code"] == 200, answer


def check_bytes(client: Client, path: str, content: bytes) -> None:
    answer = client.bytes(path)
    assert answer.status_code == 200, answer.text
    assert hashlib.sha256(answer.content).digest() == hashlib.sha256(content).digest(), path


def put_and_get(soak: Soak, client: Client, mount: str) -> None:
    """A file comes back as it went, twice: it is overwritten in between."""
    path = soak.path(mount)
    for _ in range(2):
        content = make_bytes()
        put(client, path, content)
        check_bytes(client, path, content)
    folder, _, name = path.rpartition("/")
    client.ok("/api/fs/remove", dir=folder, names=[name])
    assert client.post("/api/fs/get", path=path)["code"] == 500


def copy_over(soak: Soak, client: Client) -> None:
    """A folder is copied to the other storage by a task."""
    source, target = soak.path("/files"), soak.path("/s3")
    contents = {f"{number}.bin": make_bytes(MAX_FILE_BYTES // 4) for number in range(3)}
    for name, content in contents.items():
        put(client, f"{source}/{name}", content)
    client.ok("/api/fs/mkdir", path=target)
    answer = client.ok("/openlist/api/fs/copy", src_dir="/files", dst_dir=target, names=[source.rpartition("/")[2]])
    for task in answer["tasks"]:
        wait_for_task(client, task["id"])
    for name, content in contents.items():
        check_bytes(client, f"{target}/{source.rpartition('/')[2]}/{name}", content)
    client.ok("/api/fs/remove", dir="/s3", names=[target.rpartition("/")[2]])
    client.ok("/api/fs/remove", dir="/files", names=[source.rpartition("/")[2]])


def wait_for_task(client: Client, id: str) -> None:
    end = time.monotonic() + TASK_SECONDS
    while True:
        task = client.ok("/openlist/api/task/copy/info", params={"tid": id})
        if task["state"] not in ACTIVE_STATES:
            break
        assert time.monotonic() < end, task
        time.sleep(0.1)
    assert task["state"] == SUCCEEDED, task


def list_many(_: Soak, client: Client) -> None:
    """All rows, a page, and the sub-folders."""
    listing = client.ok("/api/fs/list", path="/files/many", page=1, per_page=0, refresh=random.random() < 0.2)
    assert (len(listing["content"]), listing["total"]) == (LISTED_FILES, LISTED_FILES)
    page = client.ok("/api/fs/list", path="/files/many", page=3, per_page=50)["content"]
    assert drop_signs(page) == drop_signs(listing["content"][100:150])
    assert client.ok("/api/fs/dirs", path="/files/many") == []


def drop_signs(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of two answers differ when it is time for new ones."""
    return [row | {"sign": ""} for row in rows]


def see_thumbnail(_: Soak, client: Client) -> None:
    rows = client.ok("/api/fs/list", path="/pictures")["content"]
    answer = client.http.get(random.choice(rows)["thumb"])
    assert answer.status_code == 200, answer.text
    Image.open(io.BytesIO(answer.content)).verify()


def look_into_archive(soak: Soak, client: Client) -> None:
    """An archive's list, and a member as it was packed."""
    path, content, packed = f"{soak.path('/files')}.zip", make_bytes(1 << 20), io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("in/side.bin", content)
    put(client, path, packed.getvalue())
    listed = client.ok("/api/fs/archive/list", path=path, inner_path="/in")
    assert [row["name"] for row in listed["content"]] == ["side.bin"]
    meta = client.ok("/api/fs/archive/meta", path=path)
    answer = client.http.get(meta["raw_url"], params={"inner": "/in/side.bin", "sign": meta["sign"]})
    assert answer.content == content
    client.ok("/api/fs/remove", dir="/files", names=[path.rpartition("/")[2]])


KINDS: dict[str, Callable[[Soak, Client], None]] = {
    "put, overwrite and get, Local": lambda soak, client: put_and_get(soak, client, "/files"),
    "put, overwrite and get, S3": lambda soak, client: put_and_get(soak, client, "/s3"),
    "copy to S3": copy_over,
    "list": list_many,
    "thumbnail": see_thumbnail,
    "archive": look_into_archive,
}


@contextmanager
def start_soak(folder: Path) -> Iterator[Soak]:
    """A service with a Local storage, pictures, and a bucket."""
    pictures = folder / "pictures"
    pictures.mkdir()
    for number in range(5):
        Image.frombytes("RGB", (800, 600), random.randbytes(800 * 600 * 3)).save(pictures / f"{number}.jpg")
    with moto_s3() as endpoint, run_service(folder / "data", MANGROVE_ALLOW_PRIVATE="true") as service:
        many = folder / "data" / "files" / "many"
        many.mkdir()
        for number in range(LISTED_FILES):
            (many / f"{number:05}.txt").touch()
        client = service.client()
        options = s3_options(endpoint, make_bucket(endpoint))
        common = {"webdav_policy": "native_proxy"}
        for mount, driver, addition in (
            ("/s3", "S3", options),
            ("/pictures", "Local", {"root_folder_path": str(pictures), "thumbnail": True}),
        ):
            client.ok(
                "/api/admin/storage/create",
                mount_path=mount,
                driver=driver,
                addition=json.dumps(addition),
                web_proxy=True,
                **common,
            )
        yield Soak(service, folder, time.monotonic() + SOAK_SECONDS)


def work(soak: Soak, kind: str) -> None:
    """One kind of work until the end, at least once."""
    client = soak.service.client()
    while True:
        KINDS[kind](soak, client)
        soak.done[kind] += 1
        if time.monotonic() > soak.end:
            return


def watch_memory(soak: Soak, ended: threading.Event) -> None:
    """Print what the service weighs, now and then."""
    began = time.monotonic()
    while not ended.wait(max(SOAK_SECONDS, REST_SECONDS) / SAMPLES):
        megabytes = sum(map(get_pss, soak.service.list_servers())) / 1e6
        print(f"{time.monotonic() - began:6.0f} s  {megabytes:6.0f} MB  {dict(soak.done)}", flush=True)


@pytest.mark.xdist_group("serve")
def test_mixed_work_breaks_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "werkzeug")  # which says a line for each request
    with start_soak(tmp_path) as soak, ThreadPoolExecutor(2 * len(KINDS) + 1) as threads:
        ended = threading.Event()
        watcher = threads.submit(watch_memory, soak, ended)
        try:
            for running in [threads.submit(work, soak, kind) for kind in [*KINDS, *KINDS]]:
                running.result()
            time.sleep(REST_SECONDS)
        finally:
            ended.set()
        watcher.result()
        assert soak.done.keys() == KINDS.keys()
        log = (tmp_path / "data.log").read_text()
        assert not re.findall(r".*(?:Traceback|internal error).*", log)
        assert soak.service.find_unfinished(tmp_path / "data" / "files") == []
