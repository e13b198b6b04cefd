"""Clients that people use: small files and a large one, up and down, by Chromium, rclone and OpenSSH's sftp.

All servers run at the same time, each on a folder of its own, and are measured in turn.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bench.tables import Table, describe_machine, format_value
from tests.e2e.page.conftest import CHROMIUM
from tests.e2e.page.steps import sign_in
from tests.protocol.protocols.people import Place, make_addition
from tests.servers import dav, free_port, ssh, wait_for
from tests.support.service import run_service

SMALL_FILES, SMALL_FILE_BYTES, BLOCK_BYTES = 500, 4096, 1 << 20
MAX_SECONDS = 600
WAIT_FOR_STATUS = """async text => {
  const isThere = status => status.textContent.includes(text)
  while (![...document.querySelectorAll('[role=status]')].some(isThere)) await new Promise(requestAnimationFrame)
}"""
DAV = ":webdav,pacer_min_sleep=0s"  # rclone would wait 10 ms between requests
SMALL = "small"
RCLONE = [str(Path(sys.executable).parent / "rclone"), "--config", "/dev/null"]
SERVER, UNFLUSHED_SERVER, FLOOR = "Mangrove", "Mangrove, `durability` is `process`", "asyncssh alone"
SINGLE_SERVER = "Mangrove, one process"
COLUMNS = ("client", "server", "small files up, files/s", "down", "large file up, MB/s", "down")
NOTE = (
    "{machine}; Mangrove has {processes} processes, the default, of which one serves SFTP; {count} files of {small:,}"
    " bytes and a file of {large:,} MiB, each server on a folder of the same disk; medians of {runs} runs in turn."
    " Mangrove flushes each file to the disk unless the setting `durability` is `process`; the others never do."
    " SFTPGo is missing: the Go module proxy refuses it; `rclone serve` uses the same SFTP library. An upload of the"
    " page begins when its folder is chosen. In brackets: ratio to the best other server, without the floor"
)


class Client(Protocol):
    """A program with an account of one server."""

    def prepare(self) -> None:
        """Do what a person does before the files of an upload are named; it is not measured."""

    def upload(self, source: Path) -> None:
        """Copy a local folder into the server's root."""

    def download(self, name: str, target: Path) -> None:
        """Copy a folder in the server's root to a local folder."""


@dataclass(frozen=True, slots=True)
class Rclone(Client):
    """rclone with a remote that ends with the path of the server's root."""

    remote: str

    def upload(self, source: Path) -> None:
        _run([*RCLONE, "copy", str(source), f"{self.remote}/{source.name}"])

    def download(self, name: str, target: Path) -> None:
        _run([*RCLONE, "copy", f"{self.remote}/{name}", str(target)])


@dataclass(frozen=True, slots=True)
class Sftp(Client):
    """OpenSSH's sftp with its options and the path of the server's root."""

    options: Sequence[str]
    root: str

    def upload(self, source: Path) -> None:
        _run(["sftp", "-b", "-", *self.options], f"put -r {source} {self.root}\n")

    def download(self, name: str, target: Path) -> None:
        _run(["sftp", "-b", "-", *self.options], f"get -r {self.root}/{name}/* {target}\n")


@dataclass(slots=True)
class Page(Client):
    """The page in Chromium, signed in. It downloads several files as a ZIP."""

    page: Any
    root: str
    chooser: Any = None
    """The open dialog in which a person chooses a folder."""

    def prepare(self) -> None:
        clear = self.page.get_by_role("button", name="Clear the list")
        if clear.is_visible():
            clear.click()
        self.page.get_by_role("button", name="New", exact=True).click()
        with self.page.expect_file_chooser() as chooser:
            self.page.get_by_role("menuitem", name="Upload a folder").click()
        self.chooser = chooser.value

    def upload(self, source: Path) -> None:
        count = len(os.listdir(source))
        self.chooser.set_files([str(source)])
        # Playwright's own waiting looks twice a second
        self.page.evaluate(WAIT_FOR_STATUS, f"{count} of {count} uploaded")

    def download(self, name: str, target: Path) -> None:
        self.page.goto(f"/@{self.root}/{name}")
        self.page.get_by_role("row").get_by_text(".bin").first.wait_for()
        self.page.get_by_role("grid").focus()
        self.page.keyboard.press("Control+a")
        with self.page.expect_download() as download:
            self.page.get_by_role("button", name="Download", exact=True).click()
            if name.startswith(SMALL):
                self.page.get_by_role("dialog").get_by_role("button", name="Download", exact=True).click()
        shutil.move(download.value.path(), target)
        self.page.goto(f"/@{self.root}")
        self.page.get_by_role("grid").wait_for()


@dataclass(frozen=True, slots=True)
class Pair:
    """A client and a server; `root`: the folder on the disk that the server serves."""

    program: str
    server: str
    client: Client
    root: Path
    ours: Place | None = None  # Mangrove
    durability: str = ""  # a setting of Mangrove

    def measure(self, source: Path, scratch: Path) -> tuple[float, float]:
        """Return the seconds of an upload and of a download of a folder."""
        if self.ours is not None:
            self.ours.save_settings(durability=self.durability)
        arrived, target = self.root / source.name, scratch / "down"
        target.mkdir()
        self.client.prepare()
        os.sync()
        began = time.perf_counter()
        self.client.upload(source)
        up = time.perf_counter() - began
        assert _add_sizes(arrived) == _add_sizes(source), f"{self.program}, {self.server}: not all files have arrived"
        os.sync()
        began = time.perf_counter()
        self.client.download(source.name, target)
        down = time.perf_counter() - began
        assert _add_sizes(target) >= _add_sizes(source), f"{self.program}, {self.server}: not all files were fetched"
        shutil.rmtree(arrived)
        shutil.rmtree(target)
        return up, down


def _run(command: Sequence[str], text: str = "") -> None:
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=MAX_SECONDS)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr[-500:]}")


def _add_sizes(folder: Path) -> int:
    return sum(entry.stat().st_size for entry in os.scandir(folder))


def _make_sources(folder: Path, size: int) -> list[Path]:
    small, large = folder / SMALL, folder / "large"
    small.mkdir(parents=True)
    large.mkdir()
    for number in range(SMALL_FILES):
        (small / f"file {number:04}.bin").write_bytes(os.urandom(SMALL_FILE_BYTES))
    with (large / "large.bin").open("wb") as file:
        for _ in range(0, size, BLOCK_BYTES):
            file.write(os.urandom(BLOCK_BYTES))
    return [small, large]


@contextmanager
def _open_page(place: Place) -> Iterator[Page]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(base_url=place.service.address, viewport={"width": 1280, "height": 800})
        page.set_default_timeout(30_000)
        sign_in(page, "/@/disk")
        yield Page(page, "/disk")
        browser.close()


def _open_place(folder: Path, stack: ExitStack, **environment: str) -> Place:
    """Start Mangrove with a Local storage at `/disk`, SFTP and a user `ann`."""
    service = stack.enter_context(run_service(folder / "data", **environment))
    place = Place(service, service.client(), free_port(), _make_folder(folder / "mangrove"), folder)
    place.admin.ok("/api/admin/storage/create", mount_path="/disk", driver="Local", addition=make_addition(place.root))
    place.save_settings(sftp_listen=f"127.0.0.1:{place.port}")
    place.create_user("ann")
    wait_for(place.port)
    return place


def _make_folder(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def _make_dav(place: Place) -> Client:
    password = subprocess.run([*RCLONE, "obscure", "ann password"], capture_output=True, text=True).stdout.strip()
    return Rclone(f"{DAV},url='{place.service.address}/dav',vendor=owncloud,user=ann,pass={password}:/disk")


def _list_dav(place: Place, stack: ExitStack) -> Iterator[Pair]:
    yield from _pair_ours("WebDAV, rclone", _make_dav(place), place)
    single = _open_place(_make_folder(place.folder / "single"), stack, MANGROVE_PROCESSES="1")
    yield Pair("WebDAV, rclone", SINGLE_SERVER, _make_dav(single), single.root, single, "file")
    server = stack.enter_context(dav.rclone_dav())
    password = subprocess.run([*RCLONE, "obscure", dav.PASSWORD], capture_output=True, text=True).stdout.strip()
    theirs = Rclone(f"{DAV},url='{server.address}',vendor=rclone,user={dav.USER},pass={password}:")
    yield Pair("WebDAV, rclone", "rclone serve", theirs, server.files)


def _list_sftp(place: Place, stack: ExitStack) -> Iterator[Pair]:
    key, folder = place.write_key("client"), place.folder
    place.write_key("ann")
    authorized = folder / "authorized"
    authorized.write_bytes(ssh.make_key("client").export_public_key("openssh"))
    openssh = stack.enter_context(ssh.openssh(_make_folder(folder / "openssh")))
    rclone_root = _make_folder(folder / "rclone sftp" / "files")
    rclone_port = stack.enter_context(ssh.rclone_sftp(rclone_root, "--authorized-keys", str(authorized)))
    floor_port, floor_root = free_port(), _make_folder(folder / "asyncssh")
    command = [sys.executable, "-m", "bench.sftp_floor", str(floor_port), str(floor_root), str(authorized)]
    stack.callback(subprocess.Popen(command).kill)
    wait_for(floor_port)
    for program in ("SFTP, sftp", "SFTP, rclone"):

        def make(port: int, user: str, key: Path, root: str, program: str = program) -> Client:
            if program == "SFTP, rclone":
                options = f"host=127.0.0.1,port={port},user={user},key_file={key},shell_type=none"
                return Rclone(f":sftp,{options}:{root}")
            sign_in = place.make_options("client" if user != "ann" else "ann")
            return Sftp([*sign_in, "-P", str(port), f"{user}@127.0.0.1"], root)

        yield from _pair_ours(program, make(place.port, "ann", folder / "key-ann", "/disk"), place)
        root = _make_folder(folder / f"openssh-{program[6:]}")
        yield Pair(program, "OpenSSH", make(openssh.port, "root", key, str(root)), root)
        yield Pair(program, "rclone serve", make(rclone_port, ssh.USER, key, ""), rclone_root)
        yield Pair(program, FLOOR, make(floor_port, "root", key, ""), floor_root)


def _pair_ours(program: str, client: Client, place: Place) -> Iterator[Pair]:
    yield Pair(program, SERVER, client, place.root, place, "file")
    yield Pair(program, UNFLUSHED_SERVER, client, place.root, place, "process")


def print_clients(folder: Path, options: Namespace) -> bool:
    """Print a row for each client and server whose names contain `only`."""
    size, runs, only = options.size_mib << 20, options.runs, options.only.lower()
    sources = _make_sources(folder / "source", size)
    with ExitStack() as stack:
        place = _open_place(_make_folder(folder / "servers"), stack)
        note = NOTE.format(
            machine=describe_machine(), processes=len(place.service.list_servers()), count=SMALL_FILES,
            small=SMALL_FILE_BYTES, large=size >> 20, runs=runs,
        )  # fmt: skip
        table = Table("Clients", note, *COLUMNS)
        pairs = [*_pair_ours("page, Chromium", stack.enter_context(_open_page(place)), place)]
        pairs += [*_list_dav(place, stack), *_list_sftp(place, stack)]
        pairs = [pair for pair in pairs if only in f"{pair.program} {pair.server}".lower()]
        amounts = (SMALL_FILES, SMALL_FILES, size / 1e6, size / 1e6)
        measured: dict[int, list[tuple[float, ...]]] = {index: [] for index in range(len(pairs))}
        for run in range(runs):
            # a server that caches folders would take a name of the last run for an existing folder
            sources = [source.rename(source.with_name(f"{source.name.partition('-')[0]}-{run}")) for source in sources]
            for index, pair in enumerate(pairs):
                seconds = [time for source in sources for time in pair.measure(source, folder)]
                measured[index].append(tuple(amount / time for amount, time in zip(amounts, seconds, strict=True)))
                print(pair.program, pair.server, *map(round, measured[index][-1]), file=sys.stderr, flush=True)
    medians = [tuple(map(statistics.median, zip(*rates, strict=True))) for rates in measured.values()]
    _print_rows(table, pairs, medians)
    if options.record:
        table.record()
    return True


def _print_rows(table: Table, pairs: Sequence[Pair], medians: Sequence[Sequence[float]]) -> None:
    for pair, rates in zip(pairs, medians, strict=True):
        others = [
            rates for other, rates in zip(pairs, medians, strict=True)
            if other.program == pair.program and other.ours is None and other.server != FLOOR
        ]  # fmt: skip
        ratios = [rate / max(best) for rate, *best in zip(rates, *others, strict=True)] if others else []
        cells = [format_value(rate) for rate in rates]
        if pair.ours is not None and ratios:
            cells = [f"{cell} ({ratio:.2f})" for cell, ratio in zip(cells, ratios, strict=True)]
        table.add(pair.program, pair.server, *cells)
