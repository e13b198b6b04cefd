"""The command line. `serve` runs the whole service on one machine; `password`, `backup` and `restore` maintain it."""

from __future__ import annotations

import argparse
import getpass
import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, cast

from mangrove import __version__
from mangrove.core import runtime
from mangrove.core.config import ACCESS_LOGS, Config
from mangrove.core.http import parse_integer
from mangrove.core.problems import Problem
from mangrove.core.runtime import Runtime
from mangrove.core.telemetry import LOG_FORMATS, AccessLog, set_format, set_level
from mangrove.records.store.endpoints import EngineEndpoint
from mangrove.standalone import backup, engine
from mangrove.standalone.data_directory import DataDirectory, DiskReserve, ProcessInfo, StartupError
from mangrove.standalone.tracing import MISSING, is_installed

if TYPE_CHECKING:
    import asyncio

    from mangrove.standalone.connections import ConnectionLimits
    from mangrove.standalone.leader import TaskLeader
    from mangrove.web.page import Page

GRACE_SECONDS = 5  # for requests in progress when the service stops
END_SECONDS = 5.0  # for everything that follows
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


def make_parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    """Return the parser of the command line. The variables in `environment` replace defaults."""
    parser = argparse.ArgumentParser(prog="mangrove", description="Many storages under mount paths, shown as one tree")
    parser.add_argument("--version", action="version", version=f"v{__version__}")
    commands = parser.add_subparsers(dest="command", required=True)

    def add_option(command: argparse.ArgumentParser, name: str, default: str | None, help: str, **rest: Any) -> None:
        variable = f"MANGROVE_{name.replace('-', '_').upper()}"
        command.add_argument(f"--{name}", default=environment.get(variable, default), help=help, **rest)

    serve = commands.add_parser("serve", help="run the service")
    add_option(serve, "host", "127.0.0.1", "address to listen on")
    add_option(serve, "port", "5244", "port to listen on; 0 chooses a free one")
    add_option(serve, "page", "", "folder of another front end, or none", metavar="none|DIR")
    add_option(serve, "log-level", "INFO", "lowest level of log lines", type=str.upper, choices=LEVELS)
    log_format = "form of log lines; default: text on a terminal, otherwise json"
    add_option(serve, "log-format", None, log_format, choices=LOG_FORMATS)
    access_log = "requests to log; polling is logged at the level DEBUG"
    add_option(serve, "access-log", "all", access_log, choices=ACCESS_LOGS)
    add_option(serve, "max-connections", "1000", "concurrent connections", type=_parse_limit)
    per_address = "concurrent connections of one address; an IPv6 /64 network counts as one"
    add_option(serve, "max-connections-per-address", "100", per_address, type=_parse_limit)
    processes = "processes that answer requests; default: one per processor, at most 4"
    add_option(serve, "processes", None, processes, type=_parse_limit)
    password = commands.add_parser(
        "password", help="set a user's password: the one that is typed, otherwise a random one"
    )
    password.add_argument("user", help="the user name")
    save = commands.add_parser("backup", help="write records, key and settings into one file; the service may run")
    save.add_argument("file", type=Path, help="the backup to write")
    save.add_argument("--files", action="store_true", help="include the files of the data directory")
    restore = commands.add_parser("restore", help="restore a backup into a data directory; no service may run on it")
    restore.add_argument("file", type=Path, help="the backup to read")
    restore.add_argument("--force", action="store_true", help="replace the content of the data directory")
    for command in (serve, password, save, restore):
        add_option(command, "data", "data", "the data directory")
    return parser


def _parse_limit(text: str) -> int:
    number = parse_integer(text)
    if not number:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return number


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status. If it cannot run, print one line on standard error."""
    options = make_parser(os.environ).parse_args(arguments)
    directory = DataDirectory(Path(options.data).resolve())
    try:
        _check_environment()
        match options.command:
            case "serve":
                _serve(directory, options)
            case "password":
                _change_password(directory, options.user)
            case "backup":
                _save_backup(directory, options.file, options.files)
            case "restore":
                _restore_backup(directory, options.file, options.force)
    except (StartupError, Problem) as reason:
        print(f"mangrove: {reason}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass  # SIGTERM or Ctrl-C
    return 0


def _check_environment() -> None:
    """Raise StartupError for an invalid variable, before anything is changed."""
    try:
        is_tracing = Config().tracing
    except ValueError as error:
        raise StartupError(str(error)) from None
    if is_tracing and not is_installed():
        raise StartupError(MISSING)


def _listen(host: str, port: str) -> socket.socket:
    number = parse_integer(port)
    if number is None or number > 65535:
        raise StartupError(f"{port} is not a port")
    try:
        return socket.create_server((host, number), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        reason = str(error.strerror).partition(" (while")[0]  # Python appends the address
        raise StartupError(f"cannot listen on {host}:{port}: {reason}") from None


@contextmanager
def _open_records(directory: DataDirectory) -> Iterator[EngineEndpoint]:
    """Return the endpoint of the records, ready for use in this process."""
    with engine.run_engine(directory.data) as endpoint:
        engine.set_environment(directory, endpoint)
        _open_tables(directory, endpoint)
        yield endpoint


def _open_tables(directory: DataDirectory, endpoint: EngineEndpoint) -> None:
    from mangrove.standalone import upgrade  # imported here, because the names of tables come from the environment

    upgrade.open_tables(directory, endpoint)


def _serve(directory: DataDirectory, options: argparse.Namespace) -> None:
    host = options.host
    set_level(options.log_level)
    if options.log_format not in (None, *LOG_FORMATS):  # argparse does not check a default of the environment
        raise StartupError(f"MANGROVE_LOG_FORMAT: {options.log_format} is none of {', '.join(LOG_FORMATS)}")
    if options.log_format is not None:
        set_format(options.log_format)
    os.environ["MANGROVE_ACCESS_LOG"] = options.access_log
    directory.lock()
    DiskReserve(directory.data).update()
    directory.prepare()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell makes background jobs ignore it
    signal.signal(signal.SIGHUP, lambda *_: None)  # until the gateway handles it, and reads the configuration again
    with _listen(host, options.port) as listener:
        url_host = f"[{host}]" if ":" in host else host
        address = f"http://{url_host}:{listener.getsockname()[1]}"
        with _open_records(directory) as endpoint:
            page = _open_page(options.page)
            holder = ProcessInfo(os.getpid(), address, endpoint.url, endpoint.socket_path, not engine.is_elsewhere())
            directory.write_holder(holder)
            _print_start(address, directory.data, *_run_first_start(directory.data))
            from mangrove.core import descriptors
            from mangrove.standalone.connections import ConnectionLimits
            from mangrove.standalone.processes import choose_count

            limits = ConnectionLimits(options.max_connections, options.max_connections_per_address)
            descriptors.raise_limit_at_start()
            try:
                count = options.processes or choose_count()
                if count == 1:
                    _run_server(listener, limits, page)
                else:
                    _run_processes(count, listener, limits, page)
            except (SystemExit, KeyboardInterrupt):
                pass  # SIGTERM or Ctrl-C
    _exit()  # a thread that still waits for a storage must not delay the end


def _exit() -> NoReturn:
    runtime.get(AccessLog).close()
    sys.stderr.flush()
    os._exit(0)


def _open_page(choice: str) -> Page | None:
    from mangrove.standalone.docs import NONE, open_page

    try:
        page = open_page(choice)
    except ValueError as error:
        raise StartupError(str(error)) from None
    if page is None and choice != NONE:
        print("mangrove: the page is not built (run `make page/dist/ready`), only the API is served", file=sys.stderr)
    return page


def _run_first_start(data: Path) -> tuple[str | None, str | None]:
    """Return the administrator's password if this is the first start and it was generated, and the name of an
    administrator whose password is short.
    """
    from mangrove.configuration import first_start
    from mangrove.identity import passwords
    from mangrove.identity.rights import ADMIN_PERMISSION

    requested_password = os.environ.pop("MANGROVE_ADMIN_PASSWORD", "")
    password = first_start.run(data, requested_password, passwords.hash_password, ADMIN_PERMISSION)
    return password, first_start.find_short_password()


def _print_start(address: str, data: Path, password: str | None, short: str | None) -> None:
    print(f"Mangrove v{__version__} at {address}, data in {data}")
    if password is not None:
        print(f"First start: sign in as admin with the password {password} (it is not shown again)")
    if short is not None:
        print(f"The password of {short} has fewer than 8 characters: `mangrove password {short}` gives another")
    sys.stdout.flush()


def _run_processes(count: int, listener: socket.socket, limits: ConnectionLimits, page: Page | None) -> None:
    from mangrove.standalone.gateway import Gateway
    from mangrove.standalone.processes import Processes

    def serve(leader: TaskLeader) -> None:
        try:
            _run_server(listener, limits, page, leader)
        except (SystemExit, KeyboardInterrupt):
            pass  # SIGTERM or Ctrl-C
        _exit()

    with runtime.use(Runtime()):
        Gateway(page)  # imported before the fork, so that all processes share its memory
    listener.setblocking(False)
    processes = Processes(count, serve, GRACE_SECONDS + END_SECONDS + 1)
    signal.signal(signal.SIGHUP, lambda *_: processes.reload())
    processes.run()


def _run_server(
    listener: socket.socket, limits: ConnectionLimits, page: Page | None, leader: TaskLeader | None = None
) -> None:
    """Answer requests until the process is asked to end. `leader` elects one of the processes that share `listener`."""
    import uvicorn

    from mangrove.core import descriptors
    from mangrove.standalone.connections import ClientConnections
    from mangrove.standalone.gateway import Gateway
    from mangrove.standalone.sockets import Acceptor

    if not sys.stderr.isatty():
        runtime.get(AccessLog).open(sys.stderr.fileno())
    connections = ClientConnections(limits, descriptors.raise_limit())
    make_protocol = connections.make_protocol()

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            _end_within(GRACE_SECONDS + END_SECONDS)
            super().handle_exit(sig, frame)

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if leader is not None:
                self.servers.append(cast("asyncio.Server", Acceptor(listener, self._make_connection)))

        def _make_connection(self) -> Any:
            return make_protocol(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

    server = Server(
        uvicorn.Config(
            Gateway(page, leader),
            loop="uvloop",
            http=make_protocol,
            ws="none",
            callback_notify=connections.check,
            timeout_notify=1,
            lifespan="on",
            access_log=False,
            log_config=None,
            log_level="warning",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
    )
    server.run(sockets=[listener] if leader is None else [])


def _end_within(seconds: float) -> None:
    """End the process after a time if it has not ended by then. Otherwise it would wait for a thread that hangs."""
    timer = threading.Timer(seconds, _end)
    timer.daemon = True
    timer.start()


def _end() -> None:
    print("mangrove: ending without the threads that still hang", file=sys.stderr, flush=True)
    _exit()  # the records engine ends with its parent


def _change_password(directory: DataDirectory, user: str) -> None:
    """Set a password, through the records engine of the service that runs on the data directory, or through an own
    engine.
    """
    password = getpass.getpass(f"New password for {user}: ") if sys.stdin.isatty() else sys.stdin.readline().strip()
    is_made_up = not password
    password = password or secrets.token_urlsafe(12)
    if not directory.key.exists():
        raise StartupError(f"{directory.data} is not a data directory of Mangrove")
    holder = directory.read_holder()
    try:
        directory.lock()
    except StartupError:
        if holder is None or not holder.engine:
            raise
        engine.set_environment(directory, EngineEndpoint(holder.engine, holder.engine_socket))
        _set_password(user, password)
        os.kill(holder.pid, signal.SIGHUP)
    else:
        directory.prepare()
        with _open_records(directory):
            _set_password(user, password)
    print(f"The new password of {user} is {password}" if is_made_up else f"The password of {user} is changed")


def _set_password(user: str, password: str) -> None:
    from mangrove.identity import accounts

    accounts.set_password(user, password)


def _save_backup(directory: DataDirectory, file: Path, with_files: bool) -> None:
    if engine.is_elsewhere():
        raise StartupError("the records are kept by another engine: back them up there")
    if not directory.records.exists():
        raise StartupError(f"{directory.data} has no records")
    holder, is_running = directory.read_holder(), False
    try:
        directory.lock()
        directory.prepare()
    except StartupError:
        if holder is None or not holder.keeps_records:
            raise
        is_running = True
    size = backup.save(directory, file, is_running=is_running, with_files=with_files)
    print(f"The backup {file} has {size:,} bytes, and the key in it opens the secrets of the records: keep it safe")


def _restore_backup(directory: DataDirectory, file: Path, force: bool) -> None:
    if engine.is_elsewhere():
        raise StartupError("the records are kept by another engine: restore them there")
    directory.lock()
    manifest = backup.restore(directory, file, force=force)
    print(f"Restored {file} of {manifest.created} into {directory.data}")
    if manifest.data != str(directory.data):
        directory.prepare()
        with _open_records(directory):
            moved = backup.move_local_storages(Path(manifest.data), directory.data)
        print(
            f"It was made of {manifest.data}. Storages that were in it are in {directory.data} now: {', '.join(moved)}"
        )


if __name__ == "__main__":
    sys.exit(main())
