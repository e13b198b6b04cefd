"""Clients that people use: small files and a large one, up and down, by Chromium, rclone and OpenSSH's sftp.

All servers run at the same time, each on a folder of its own, and are measured in turn.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bench.page import visit
from bench.tables import Table, describe_machine, format_value, measure_seconds
from bench.workspace import FIRST_FILE, fill
from tests.protocol.protocols.people import Place, open_place
from tests.servers import dav, ssh
from tests.support.service import run_service

SMALL_FILES, SMALL_FILE_BYTES = 500, 4096
MAX_SECONDS = 600
WAIT_FOR_STATUS = """async text => {
  const isThere = status => status.textContent.includes(text)
  while (![...document.querySelectorAll('[role=status]')].some(isThere)) await new Promise(requestAnimationFrame)
}"""
SMALL = "small"
RCLONE = [str(Path(sys.executable).parent / "rclone"), "--config", "/dev/null"]
PAGE, DAV, SFTP, RCLONE_SFTP = "page, Chromium", "WebDAV, rclone", "SFTP, sftp", "SFTP, rclone"
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


@dataclass(frozen=True, slots=True)
class Client:
    """A program with an account of one server."""

    upload: Callable[[Path], object]  # copies a local folder into the server's root
    download: Callable[[str, Path], object]  # copies a folder in the server's root to a local folder
    prepare: Callable[[], object] = bool  # before the files of an upload are named; it is not measured


def make_rclone(remote: str) -> Client:
    """Return rclone with a remote that ends with the path of the server's root."""
    copy = [*RCLONE, "copy"]
    return Client(
        lambda source: _run([*copy, str(source), f"{remote}/{source.name}"]),
        lambda name, target: _run([*copy, f"{remote}/{name}", str(target)]),
    )


def make_sftp(root: str, *options: str) -> Client:
    """Return OpenSSH's sftp with the path of the server's root."""
    run = partial(_run, ["sftp", "-b", "-", *options])
    return Client(
        lambda source: run(f"put -r {source} {root}\n"), lambda name, target: run(f"get -r {root}/{name}/* {target}\n")
    )


@dataclass(slots=True)
class Page:
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
        self.page.get_by_role("row").get_by_text(FIRST_FILE).wait_for()
        self.page.get_by_role("grid").focus()
        self.page.keyboard.press("Control+a")
        with self.page.expect_download() as download:
            self.page.get_by_role("button", name="Download", exact=True).click()
            if name.startswith(SMALL):
                self.page.get_by_role("dialog").get_by_role("button", name="Download", exact=True).click()
        shutil.move(download.value.path(), target)
        self.page.goto(f"/@{self.root}")
        self.page.get_by_role("grid").wait_for()


@dataclass(eq=False)
class Pair:
    """A client and a server; `root`: the folder on the disk that the server serves."""

    program: str
    server: str
    client: Client
    root: Path
    ours: Place | None = None  # Mangrove
    durability: str = ""  # a setting of Mangrove
    rates: list[list[float]] = field(default_factory=list)  # of each run: both sources, up and down

    @property
    def medians(self) -> list[float]:
        return [statistics.median(column) for column in zip(*self.rates, strict=True)]

    def measure(self, source: Path, scratch: Path) -> tuple[float, float]:
        """Return the seconds of an upload and of a download of a folder."""
        if self.ours is not None:
            self.ours.save_settings(durability=self.durability)
        arrived, target = self.root / source.name, scratch / "down"
        target.mkdir()
        self.client.prepare()
        os.sync()
        up = measure_seconds(partial(self.client.upload, source))
        os.sync()
        down = measure_seconds(partial(self.client.download, source.name, target))
        for folder in (arrived, target):
            missing = _add_sizes(source) - _add_sizes(folder)
            assert missing <= 0, f"{self.program}, {self.server}: {folder} lacks {missing} bytes"
            shutil.rmtree(folder)
        return up, down


def _run(command: Sequence[str], text: str = "") -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=MAX_SECONDS)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr[-500:]}")
    return done.stdout.strip()


def _add_sizes(folder: Path) -> int:
    return sum(entry.stat().st_size for entry in os.scandir(folder))


def _open_place(folder: Path, stack: ExitStack, **environment: str) -> Place:
    """Start Mangrove with a Local storage at `/disk`, SFTP and a user `client`."""
    folder.mkdir(parents=True)
    place = open_place(stack.enter_context(run_service(folder / "data", **environment)), folder)
    place.create_user("client")
    return place


def _list_pairs(place: Place, stack: ExitStack) -> Iterator[Pair]:
    visitor = stack.enter_context(visit(place.service, place.folder / "profile"))
    visitor.page.goto("/@/disk")
    visitor.sign_in("/disk")
    page = Page(visitor.page, "/disk")
    yield from _pair_ours(PAGE, Client(page.upload, page.download, page.prepare), place)
    yield from _list_dav(place, stack)
    yield from _list_sftp(place, stack)


def _pair_ours(program: str, client: Client, place: Place) -> Iterator[Pair]:
    yield Pair(program, SERVER, client, place.root, place, "file")
    yield Pair(program, UNFLUSHED_SERVER, client, place.root, place, "process")


def _list_dav(place: Place, stack: ExitStack) -> Iterator[Pair]:
    single = _open_place(place.folder / "single", stack, MANGROVE_PROCESSES="1")
    server = stack.enter_context(dav.rclone_dav())

    def make(address: str, vendor: str, user: str, password: str, root: str) -> Client:
        options = f"url='{address}',vendor={vendor},user={user},pass={_run([*RCLONE, 'obscure', password])}"
        return make_rclone(f":webdav,pacer_min_sleep=0s,{options}:{root}")  # rclone would wait 10 ms between requests

    def make_ours(place: Place) -> Client:
        return make(f"{place.service.address}/dav", "owncloud", "client", "client password", "/disk")

    yield from _pair_ours(DAV, make_ours(place), place)
    yield Pair(DAV, SINGLE_SERVER, make_ours(single), single.root, single, "file")
    yield Pair(DAV, "rclone serve", make(server.address, "rclone", dav.USER, dav.PASSWORD, ""), server.files)


def _list_sftp(place: Place, stack: ExitStack) -> Iterator[Pair]:
    key, folder = place.write_key("client"), place.folder
    roots = [folder / "servers" / name for name in ("openssh", "rclone", "asyncssh")]
    for root in roots:
        (root / "files").mkdir(parents=True)
    authorized = folder / "authorized"
    authorized.write_bytes(ssh.make_key("client").export_public_key("openssh"))
    openssh, rclone, floor = (root / "files" for root in roots)
    openssh_port = stack.enter_context(ssh.openssh(openssh.parent)).port
    rclone_port = stack.enter_context(ssh.rclone_sftp(rclone, "--authorized-keys", str(authorized)))
    floor_port = stack.enter_context(ssh.python_ssh(floor)).port

    def make_openssh(port: int, user: str, root: str) -> Client:
        return make_sftp(root, *place.make_options("client"), "-P", str(port), f"{user}@127.0.0.1")

    def make_other(port: int, user: str, root: str) -> Client:
        return make_rclone(f":sftp,host=127.0.0.1,port={port},user={user},key_file={key},shell_type=none:{root}")

    for program, make in ((SFTP, make_openssh), (RCLONE_SFTP, make_other)):
        yield from _pair_ours(program, make(place.port, "client", "/disk"), place)
        yield Pair(program, "OpenSSH", make(openssh_port, "root", str(openssh)), openssh)
        yield Pair(program, "rclone serve", make(rclone_port, ssh.USER, ""), rclone)
        yield Pair(program, FLOOR, make(floor_port, ssh.USER, ""), floor)


def print_tables(folder: Path, options: Namespace) -> Iterator[Table]:
    """Print a row for each client and server whose names contain `only`."""
    size = options.size_mib << 20
    sources = [fill(folder / SMALL, SMALL_FILES, SMALL_FILE_BYTES), fill(folder / "large", 1, size)]
    amounts = (SMALL_FILES, SMALL_FILES, size / 1e6, size / 1e6)
    with ExitStack() as stack:
        place = _open_place(folder / "mangrove", stack)
        note = NOTE.format(
            machine=describe_machine(), processes=len(place.service.list_servers()), count=SMALL_FILES,
            small=SMALL_FILE_BYTES, large=options.size_mib, runs=options.runs,
        )  # fmt: skip
        table = Table("Clients", note, *COLUMNS)
        only = options.only.lower()
        pairs = [pair for pair in _list_pairs(place, stack) if only in f"{pair.program} {pair.server}".lower()]
        for run in range(options.runs):
            # a server that caches folders would take a name of the last run for an existing folder
            sources = [source.rename(source.with_name(f"{source.name.partition('-')[0]}-{run}")) for source in sources]
            for pair in pairs:
                seconds = [time for source in sources for time in pair.measure(source, folder)]
                pair.rates.append([amount / time for amount, time in zip(amounts, seconds, strict=True)])
                print(pair.program, pair.server, *map(round, pair.rates[-1]), file=sys.stderr, flush=True)
    for pair in pairs:
        table.add(pair.program, pair.server, *_format_rates(pair, pairs))
    yield table


def _format_rates(pair: Pair, pairs: Sequence[Pair]) -> Iterator[str]:
    """Yield the medians of a pair, those of Mangrove with the ratio to the best other server."""
    others = [other for other in pairs if other.program == pair.program and not other.ours and other.server != FLOOR]
    for index, rate in enumerate(pair.medians):
        best = max((other.medians[index] for other in others), default=0.0)
        yield format_value(rate) + (f" ({rate / best:.2f})" if pair.ours and best else "")
