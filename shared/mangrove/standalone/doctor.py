"""`mangrove doctor`: a check of this computer and the data directory, one line for each."""

from __future__ import annotations

import fcntl
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from mangrove.core.http import parse_integer
from mangrove.records.store.endpoints import EngineEndpoint
from mangrove.standalone import docs, engine
from mangrove.standalone.data_directory import DataDirectory, StartupError
from mangrove.standalone.namespace import Namespace, NamespaceRefused

MIN_PYTHON = (3, 11)
MIN_FREE_BYTES = 1 << 30
MIN_FREE_ENTRIES = 10_000  # inodes
MIN_DESCRIPTORS = 4096
MIN_WRITE_BYTES_PER_SECOND = 20 << 20
MAX_FSYNC_SECONDS = 0.05
MAX_CLOCK_ERROR_SECONDS = 300.0
WRITTEN_BYTES = 32 << 20
BLOCK_BYTES = 1 << 20
FSYNC_COUNT = 10
PROGRAM_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check. `advice` is "" if all is well."""

    check: str
    result: str
    advice: str = ""

    @property
    def line(self) -> str:
        state = "warning" if self.advice else "ok"
        return f"{state:8} {self.check}: {self.result}" + (f": {self.advice}" if self.advice else "")


Check = Callable[[], Finding]


class Doctor:
    """The checks of a data directory, and of an address to listen on. They change nothing."""

    def __init__(self, directory: DataDirectory, host: str, port: str) -> None:
        self._directory = directory
        self._host, self._port = host, port
        self._folder = directory.data
        while not self._folder.is_dir():  # the disk is that of the nearest folder that exists
            self._folder = self._folder.parent

    def examine(self) -> Iterator[Finding]:
        """Yield the finding of each check."""
        checks: Sequence[Check] = (
            self._check_python, self._check_data, self._check_engine, self._check_namespace, self._check_file_system,
            self._check_space, self._check_speed, self._check_clock, self._check_port, self._check_descriptors,
            self._check_page,
        )  # fmt: skip
        for check in checks:
            try:
                yield check()
            except (OSError, StartupError, subprocess.TimeoutExpired) as error:
                name = check.__name__.removeprefix("_check_").replace("_", " ")
                yield Finding(name, "unknown", str(error))

    def _check_python(self) -> Finding:
        version = ".".join(map(str, sys.version_info[:3]))
        advice = "" if sys.version_info >= MIN_PYTHON else "install Python 3.11 or newer"
        return Finding("Python", version, advice)

    def _check_data(self) -> Finding:
        data = self._directory.data
        if not data.exists():
            is_writable = os.access(self._folder, os.W_OK)
            return Finding("data", f"{data} is new", "" if is_writable else f"{self._folder} is not writable")
        owner = data.stat().st_uid
        if owner != os.geteuid():
            return Finding("data", str(data), f"it belongs to uid {owner}: run the service as that account")
        if not os.access(data, os.W_OK | os.X_OK):
            return Finding("data", str(data), "it is not writable")
        if self._directory.records.exists() and not self._directory.key.exists():
            return Finding("data", str(data), "the key is missing: restore it from a backup")
        version = self._directory.read_schema()
        return Finding("data", f"{data}, " + ("no records yet" if version is None else f"records of version {version}"))

    def _check_engine(self) -> Finding:
        if engine.is_elsewhere():
            endpoint = os.environ["MANGROVE_DYNAMODB_ENDPOINT"]
            engine.list_tables(EngineEndpoint(endpoint))
            return Finding("engine", f"{endpoint} answers")
        binary = str(engine.find_binary())
        if not os.access(binary, os.X_OK):
            return Finding("engine", binary, "this account may not run it")
        done = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=PROGRAM_SECONDS)  # noqa: S603 - the engine
        if done.returncode:
            return Finding("engine", binary, "it does not run on this computer: set MANGROVE_DYNAMODB_ENDPOINT")
        return Finding("engine", (done.stdout or done.stderr).strip().splitlines()[0])

    def _check_namespace(self) -> Finding:
        advice = "other accounts of this computer can reach the records: allow unprivileged user namespaces"
        with tempfile.TemporaryDirectory(prefix="mangrove-") as folder:
            try:
                Namespace(Path(folder)).close()
            except NamespaceRefused as reason:
                return Finding("namespace", f"refused, {reason}", advice)
        return Finding("namespace", "the records engine gets one of its own")

    def _check_file_system(self) -> Finding:
        missing = [name for name, probe in CAPABILITIES.items() if not _succeeds(probe, self._folder)]
        if missing:
            return Finding("file system", f"lacks {', '.join(missing)}", "put the data directory on a local disk")
        return Finding("file system", f"has {', '.join(CAPABILITIES)}")

    def _check_space(self) -> Finding:
        disk = os.statvfs(self._folder)
        free = disk.f_bavail * disk.f_frsize
        result = f"{free / (1 << 30):.1f} GiB free"
        if disk.f_files and disk.f_favail < MIN_FREE_ENTRIES:
            return Finding("space", f"{result}, {disk.f_favail} inodes", "remove files, or use a larger disk")
        return Finding("space", result, "" if free >= MIN_FREE_BYTES else "below 1 GiB: remove files")

    def _check_speed(self) -> Finding:
        speed, seconds = measure_writes(self._folder)
        result = f"{speed / (1 << 20):.0f} MiB/s written, {1000 * seconds:.1f} ms for an fsync"
        is_slow = speed < MIN_WRITE_BYTES_PER_SECOND or seconds > MAX_FSYNC_SECONDS
        return Finding("disk", result, "changes wait for the disk: use a faster one" if is_slow else "")

    def _check_clock(self) -> Finding:
        now = time.time()
        files = [self._directory.records, self._directory.schema, Path(__file__)]
        newest = max(file.stat().st_mtime for file in files if file.exists())
        text = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
        is_behind = newest > now + MAX_CLOCK_ERROR_SECONDS
        return Finding(
            "clock", text, "files are newer than the clock: set it, sign-ins and links depend on it" * is_behind
        )

    def _check_port(self) -> Finding:
        name = f"{self._host}:{self._port}"
        number = parse_integer(self._port)
        if number is None or number > 65535:
            return Finding("port", name, "it is not a port")
        holder = self._directory.read_holder() if self._directory.is_locked() else None
        if holder is not None and holder.address.endswith(f":{number}"):
            return Finding("port", f"{name} is used by the running service")
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        try:
            socket.create_server((self._host, number), family=family).close()
        except OSError as error:
            return Finding("port", name, f"{error.strerror}: choose another one with --port")
        return Finding("port", f"{name} is free")

    def _check_descriptors(self) -> Finding:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        result = "unlimited" if limit == resource.RLIM_INFINITY else f"{limit:,} file descriptors"
        is_low = limit != resource.RLIM_INFINITY and limit < MIN_DESCRIPTORS
        return Finding("descriptors", result, "few connections fit: raise `ulimit -n`" if is_low else "")

    def _check_page(self) -> Finding:
        if docs.open_page("") is None:
            return Finding("page", "not built", "run `make page/dist/ready`, or install the package")
        return Finding("page", "built")


def _succeeds(probe: Callable[[Path], None], folder: Path) -> bool:
    with tempfile.TemporaryDirectory(prefix=".mangrove-", dir=folder) as scratch:
        try:
            probe(Path(scratch))
        except OSError:
            return False
    return True


def _lock(folder: Path) -> None:
    with (folder / "lock").open("w") as first, (folder / "lock").open("w") as second:
        fcntl.flock(first, fcntl.LOCK_EX)
        try:
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        raise OSError("two processes get one lock")


def _replace(folder: Path) -> None:
    (folder / "old").write_text("old")
    (folder / "new").write_text("new")
    os.replace(folder / "new", folder / "old")


def _link(folder: Path) -> None:
    (folder / "file").write_text("")
    os.link(folder / "file", folder / "second name")


def _make_nameless(folder: Path) -> None:
    os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o600))


def _listen(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(folder / "s"))


CAPABILITIES: dict[str, Callable[[Path], None]] = {
    "locks": _lock,
    "atomic replacement": _replace,
    "hard links": _link,
    "nameless files": _make_nameless,
    "sockets": _listen,
}


def measure_writes(folder: Path) -> tuple[float, float]:
    """Return the bytes per second of a write to the disk, and the seconds of an fsync of a small change."""
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        block = os.urandom(BLOCK_BYTES)
        start = time.monotonic()
        for _ in range(WRITTEN_BYTES // BLOCK_BYTES):
            file.write(block)
        os.fsync(file.fileno())
        speed = WRITTEN_BYTES / max(time.monotonic() - start, 1e-9)
        start = time.monotonic()
        for number in range(FSYNC_COUNT):
            os.pwrite(file.fileno(), block[:4096], number * 4096)
            os.fsync(file.fileno())
        return speed, (time.monotonic() - start) / FSYNC_COUNT


def make_document(findings: Sequence[Finding]) -> list[dict[str, object]]:
    """Return findings as JSON values."""
    return [{"ok": not finding.advice, **asdict(finding)} for finding in findings]
