"""The WebDAV door with the clients that people use."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from mangrove.core.paths import TRASH
from tests.protocol.protocols.people import ALL, Place, run
from tests.support.proc import get_pss
from tests.support.service import HttpClient

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("doors")]
RCLONE = str(Path(sys.executable).parent / "rclone")
PASSWORD = "a-long-password"
MAX_GROWTH_KIB = 60_000  # that 100,000 entries may cost, what the interpreter keeps of earlier work included


def need(program: str) -> pytest.MarkDecorator:
    executable = shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin")
    return pytest.mark.skipif(executable is None, reason=f"{program} is not here")


@pytest.fixture(scope="module")
def dav(place: Place) -> Iterator[HttpClient]:
    """A client of a user with every right."""
    place.admin.ok("/api/admin/user/create", username="dana", password=PASSWORD, base_path="/", permission=ALL)
    with HttpClient(base_url=f"{place.service.address}/dav", auth=("dana", PASSWORD), timeout=120) as client:
        yield client


@pytest.fixture(scope="module")
def trash(place: Place) -> Path:
    """The folder of a storage at /trash that keeps what is removed, and two versions of a file."""
    root = place.folder / "trash"
    root.mkdir()
    options = {"root_folder_path": str(root), "show_hidden": True, "trash_days": 30, "keep_versions": 2}
    place.admin.ok("/api/admin/storage/create", mount_path="/trash", driver="Local", addition=json.dumps(options))
    return root


LITMUS = ["basic", "copymove", "props", "locks", "http"]


def run_litmus(address: str, suite: str, folder: Path) -> None:
    command = ["litmus", address, "dana", PASSWORD]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, cwd=folder, env=os.environ | {"TESTS": suite}
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    counts = re.search(r"of (\d+) tests run: (\d+) passed, 0 failed", done.stdout)
    assert counts is not None and counts[1] == counts[2], done.stdout


@need("litmus")
@pytest.mark.parametrize("suite", LITMUS)
def test_litmus_passes(place: Place, dav: HttpClient, tmp_path: Path, suite: str) -> None:
    run_litmus(f"{place.service.address}/dav/disk/", suite, tmp_path)


@need("litmus")
@pytest.mark.parametrize("suite", LITMUS)
def test_litmus_passes_with_a_trash(place: Place, dav: HttpClient, trash: Path, tmp_path: Path, suite: str) -> None:
    run_litmus(f"{place.service.address}/dav/trash/", suite, tmp_path)
    shown = dav.request("PROPFIND", "/trash/", headers={"depth": "1"}).text
    assert (trash / TRASH).is_dir() and TRASH not in shown
    assert dav.request("PROPFIND", f"/trash/{TRASH}/", headers={"depth": "0"}).status_code == 404


def test_rclone_copies_checks_moves_and_clears(place: Place, dav: HttpClient, tmp_path: Path) -> None:
    for number in range(30):
        path = tmp_path / f"folder {number % 3}" / f"file {number} ✓&#.bin"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(os.urandom(number * 700))
    password = run([RCLONE, "obscure", PASSWORD]).stdout.strip()
    remote = f":webdav,url='{place.service.address}/dav',vendor=owncloud,user=dana,pass={password}:/disk/rclone"
    for words in (
        ["copy", str(tmp_path), remote], ["check", "--download", str(tmp_path), remote],
        ["moveto", remote, f"{remote}-moved"], ["check", "--download", str(tmp_path), f"{remote}-moved"],
    ):  # fmt: skip
        done = run([RCLONE, "--config", "/dev/null", *words])
        assert done.returncode == 0, done.stderr
    moved = next((place.root / "rclone-moved").rglob("file 7*"))
    assert int(moved.stat().st_mtime) == int((tmp_path / "folder 1" / moved.name).stat().st_mtime)
    done = run([RCLONE, "--config", "/dev/null", "purge", f"{remote}-moved"])
    assert done.returncode == 0 and not (place.root / "rclone-moved").exists(), done.stderr


@need("cadaver")
def test_cadaver_does_what_people_do(place: Place, dav: HttpClient, tmp_path: Path) -> None:
    (tmp_path / ".netrc").write_text(f"machine 127.0.0.1 login dana password {PASSWORD}\n")
    (tmp_path / "up").write_bytes(b"from cadaver")
    lines = (
        "mkcol cada", f"put {tmp_path}/up cada/a", "lock cada/a", "unlock cada/a", "propset cada/a color red",
        "propget cada/a color", "copy cada/a cada/b", "move cada/b cada/c", "ls cada", f"get cada/c {tmp_path}/down",
        "delete cada/a", "rmcol cada", "quit",
    )  # fmt: skip
    done = subprocess.run(
        ["cadaver", f"{place.service.address}/dav/disk/"], input="\n".join(lines) + "\n", capture_output=True,
        text=True, timeout=120, env=os.environ | {"HOME": str(tmp_path)},
    )  # fmt: skip
    assert "failed" not in done.stdout and "Value of color is: red" in done.stdout, done.stdout
    assert (tmp_path / "down").read_bytes() == b"from cadaver" and not (place.root / "cada").exists()


@need("mount.davfs")
@pytest.mark.skipif(not os.path.exists("/dev/fuse") or os.geteuid() != 0, reason="nothing can be mounted here")
def test_davfs2_mounts_a_folder(place: Place, dav: HttpClient, tmp_path: Path) -> None:
    """Without a listing: on kernels of today davfs2 2.7 answers none, whatever the server."""
    (place.root / "seen").write_bytes(b"from the server")
    url, where = f"{place.service.address}/dav/disk/", tmp_path / "mount"
    where.mkdir()
    (tmp_path / "secrets").write_text(f"{url} dana {PASSWORD}\n")
    (tmp_path / "secrets").chmod(0o600)
    (tmp_path / "conf").write_text(f"ask_auth 0\nuse_locks 1\ndelay_upload 0\nsecrets {tmp_path}/secrets\n")
    done = run(["mount", "-t", "davfs", "-o", f"conf={tmp_path}/conf", url, str(where)])
    if done.returncode:
        pytest.skip(f"davfs2 does not mount here: {done.stderr.strip()[:100]}")
    try:
        assert (where / "seen").read_bytes() == b"from the server"
        (where / "folder").mkdir()
        (where / "new").write_bytes(b"from davfs2")
        (where / "new").rename(where / "folder" / "moved")
        (where / "seen").unlink()
    finally:
        assert run(["umount", str(where)]).returncode == 0
    assert (place.root / "folder/moved").read_bytes() == b"from davfs2" and not (place.root / "seen").exists()


def test_curl_sends_what_has_no_length_and_reads_a_range(place: Place, dav: HttpClient, tmp_path: Path) -> None:
    url, user = f"{place.service.address}/dav/disk/curled", ["-s", "-u", f"dana:{PASSWORD}"]
    done = subprocess.run(["curl", *user, "-f", "-T", "-", url], input=b"0123456789" * 100_000, timeout=60)
    assert done.returncode == 0 and (place.root / "curled").stat().st_size == 1_000_000
    assert run(["curl", *user, "-r", "5-9", url]).stdout == "56789"


def test_a_hundred_thousand_entries_hold_no_memory(place: Place, dav: HttpClient) -> None:
    (place.root / "hundred thousand").mkdir()
    for number in range(100_000):
        (place.root / "hundred thousand" / f"entry {number}").touch()

    def read() -> int:
        with dav.stream("PROPFIND", "/disk/hundred%20thousand", headers={"depth": "1"}) as answer:
            assert answer.status_code == 207
            return sum("</D:response>" in line for line in answer.iter_lines())

    def read_rss() -> int:
        return max(get_pss(pid) for pid in place.service.list_servers()) >> 10

    before = read_rss()
    assert read() == 100_001
    assert read_rss() - before < MAX_GROWTH_KIB
    shutil.rmtree(place.root / "hundred thousand")


def test_half_a_request_and_ten_megabytes_of_headers_slow_nobody(place: Place, dav: HttpClient) -> None:
    parts = urlsplit(place.service.address)
    assert parts.hostname is not None and parts.port is not None
    with socket.create_connection((parts.hostname, parts.port), 60) as half:
        half.sendall(b"PROPFIND /dav/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n<D:propfind")
        with socket.create_connection((parts.hostname, parts.port), 60) as large:
            try:
                for _ in range(10):
                    large.sendall(b"X-Large: " + b"x" * (1 << 20))
            except OSError:
                pass  # it was refused before its end
        assert dav.request("PROPFIND", "/", headers={"depth": "0"}).status_code == 207
    with pytest.raises(httpx.HTTPStatusError):
        dav.request("PROPFIND", "/", headers={"depth": "0", "if": "(" * 60_000}).raise_for_status()
