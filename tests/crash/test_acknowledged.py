"""Processes and the engine of a service of four processes are killed while clients of each protocol change files: every
change that was acknowledged is there afterwards, and nothing else.

`KILLS=200 make crash` kills so many.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest

from tests.crash import processes
from tests.crash.processes import Family
from tests.crash.writers import TROUBLES, USER, ApiWriter, CopyWriter, DavWriter, MultipartWriter, SftpWriter, Writer
from tests.e2e.processes import find_engines
from tests.servers import free_port, wait_for
from tests.support.service import ADMIN_PASSWORD, PART, Client, run_forked

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("crash")]

ALL_RIGHTS = 0x7FFF
KILLS = int(os.environ.get("KILLS", "6"))
PROCESSES = 4
MIN_KILL_SECONDS, MAX_KILL_SECONDS = 0.2, 1.5  # between a return and the next kill
ENGINE_SHARE = 0.2  # of the kills
SETTLE_SECONDS = 180.0
SEARCH_SECONDS = 90.0  # until a search finds all


class Searcher(threading.Thread):
    """Searches until it is ended; an answer is a page of rows or a problem."""

    def __init__(self, address: str, token: str) -> None:
        super().__init__(name="search")
        self.answers = 0
        self.lost = 0
        self.ending = threading.Event()
        self._address, self._token = address, token

    def run(self) -> None:
        while not self.ending.is_set():
            with Client(self._address, self._token).http as http:
                body = {"parent": "/files", "keywords": uuid4().hex[:3], "scope": 0, "page": 1, "per_page": 100}
                try:
                    answer = http.post("/api/fs/search", json=body).json()
                except TROUBLES:
                    self.lost += 1
                else:
                    self.answers += answer["code"] == 200
            time.sleep(0.05)


def kill_some(family: Family, chooser: random.Random) -> None:
    """Kill a process that answers, or the records engine."""
    family.wait_until_whole()
    engines = find_engines(family.service)
    if engines and chooser.random() < ENGINE_SHARE:
        with suppress(ProcessLookupError):
            os.kill(engines[0], signal.SIGKILL)
    else:
        family.kill(chooser.choice(family.wait_until_whole()))
    time.sleep(chooser.uniform(MIN_KILL_SECONDS, MAX_KILL_SECONDS))


def settle(client: Client) -> None:
    """Wait until no task is under way."""
    end = time.monotonic() + SETTLE_SECONDS
    while any(client.get(f"/api/task/{kind}/undone")["data"] for kind in ("copy", "move", "upload")):
        assert time.monotonic() < end
        time.sleep(0.2)


def describe(content: bytes | None) -> str:
    return "no file" if content is None else f"{len(content)} bytes"


def compare(writer: Writer, folder: Path) -> int:
    """Compare a folder with what its writer may expect; how many names there were."""
    files = {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(PART)}
    wrong = [
        (name, describe(files.get(name)), [describe(content) for content in states], writer.history[name])
        for name, states in writer.states.items()
        if files.get(name) not in states
    ]
    assert not wrong, f"{writer.name}: {len(wrong)} of {len(writer.states)}: {wrong[:5]}"
    assert files.keys() <= writer.states.keys(), f"{writer.name}: files that nobody stored"
    return len(writer.states)


def find_unfound(client: Client, folder: str, names: set[str]) -> set[str]:
    """Return the names in a folder that a search does not find; it asks for each name."""
    missing = set()
    for name in names:
        body = {"parent": f"/files/{folder}", "keywords": name, "scope": 0, "page": 1, "per_page": 10}
        answer = client.post("/api/fs/search", **body)
        if answer["code"] != 200 or name not in {row["name"] for row in answer["data"]["content"]}:
            missing.add(name)
    return missing


def test_every_acknowledged_change_survives_kills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "PROCESSES", PROCESSES)
    (tmp_path / "second").mkdir()
    with run_forked(tmp_path / "data", MANGROVE_PROCESSES=str(PROCESSES)) as service:
        admin, port = service.client(), free_port()
        addition = json.dumps({"root_folder_path": str(tmp_path / "second")})
        admin.ok("/api/admin/storage/create", mount_path="/second", driver="Local", addition=addition)
        rows = [{"key": "sftp_listen", "value": f"127.0.0.1:{port}"}]
        assert admin.envelope(admin.http.post("/api/admin/setting/save", json=rows))["code"] == 200
        wait_for(port)
        rights = {"permission": ALL_RIGHTS, "base_path": "/", "role": 0, "disabled": False}
        admin.ok("/api/admin/user/create", username=USER, password=ADMIN_PASSWORD, **rights)
        address, token = service.address, admin.token
        writers: list[Writer] = [
            ApiWriter("api", address, token),
            MultipartWriter("multipart", address, token),
            CopyWriter("copy", address, token),
            DavWriter("dav", address),
            SftpWriter("sftp", port),
        ]
        for writer in writers:
            admin.ok("/api/fs/mkdir", path=f"/files/{writer.folder}")
        searcher, family, chooser = Searcher(address, token), Family(service, token), random.Random(KILLS)
        family.wait_until_whole()
        for thread in (*writers, searcher):
            thread.start()
        try:
            for _ in range(KILLS):
                kill_some(family, chooser)
            family.wait_until_whole()
        finally:
            for thread in (*writers, searcher):
                thread.ending.set()
            for thread in (*writers, searcher):
                thread.join()
        for writer in writers:
            if writer.problem is not None:
                raise writer.problem
        client = Client(address, token)
        settle(client)
        files, compared = service.data / "files", 0
        for writer in writers:
            compared += compare(writer, files / writer.folder)
            assert writer.acknowledged, (writer.name, writer.lost, writer.last_trouble)
        copied = {path.name: path.read_bytes() for path in (tmp_path / "second").iterdir()}
        lost = [name for name, states in writers[2].states.items() if len(states) == 1 and {copied.get(name)} != states]
        assert not lost, f"{len(lost)} copies of answered tasks are missing"
        end = time.monotonic() + SEARCH_SECONDS
        for writer in writers:
            names = {name for name, states in writer.states.items() if len(states) == 1 and None not in states}
            sample = set(sorted(names)[:20])
            while unfound := find_unfound(client, writer.folder, sample):
                assert time.monotonic() < end, f"{writer.name}: a search does not find {unfound}"
                time.sleep(0.5)
        print(
            f"{KILLS} kills: {compared} names compared, {searcher.answers} searches; acknowledged and lost:",
            {writer.name: (writer.acknowledged, writer.lost) for writer in writers},
        )
