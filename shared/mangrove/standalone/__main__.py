"""The command line. `serve` runs the whole service on one machine."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, cast

from mangrove import __version__
from mangrove.core import runtime
from mangrove.core.config import Config
from mangrove.core.http import parse_integer
from mangrove.core.problems import Problem
from mangrove.core.telemetry import LOG_FORMATS, AccessLog, log, set_format
from mangrove.standalone import engine, maintenance
from mangrove.standalone.data_directory import DataDirectory, DiskReserve, ProcessInfo, StartupError
from mangrove.standalone.parser import make_parser
from mangrove.standalone.stopping import END_SECONDS, GRACE_SECONDS, StopRequest, end_process, end_within
from mangrove.standalone.tracing import MISSING, is_installed

if TYPE_CHECKING:
    import asyncio

    from mangrove.standalone.connections import ConnectionLimits
    from mangrove.standalone.gateway import Gateway
    from mangrove.standalone.leader import TaskLeader
    from mangrove.web.page import FrontEndFolder


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status. If it cannot run, print one line on standard error."""
    parser = make_parser(os.environ, "".join((sys.argv[1:] if arguments is None else arguments)[:1]))
    options = parser.parse_args(arguments)
    try:
        return _run(parser, options)
    except (StartupError, Problem) as reason:
        print(f"mangrove: {reason}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass  # Ctrl-C
    return 0


def _run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    if options.command == "completion":
        _print_completion(parser, options.shell)
        return 0
    _check_environment()
    if "run" in options:
        from mangrove.commands.context import run  # imported here, because a service does not need the client
        from mangrove.standalone.local_client import open_local_client

        return run(options, open_local_client)
    directory = DataDirectory(Path(options.data).resolve())
    match options.command:
        case "serve":
            _serve(directory, options)
        case "password":
            maintenance.change_password(directory, options)
        case "backup":
            maintenance.save_backup(directory, options)
        case "restore":
            maintenance.restore_backup(directory, options)
        case "doctor":
            return maintenance.examine(directory, options)
    return 0


def _print_completion(parser: argparse.ArgumentParser, shell: str) -> None:
    try:
        import shtab
    except ImportError:
        raise StartupError("the completion needs the package shtab") from None
    print(shtab.complete(parser, shell))


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


def _serve(directory: DataDirectory, options: argparse.Namespace) -> None:
    host = options.host
    log.setLevel(options.log_level)
    if options.log_format not in (None, *LOG_FORMATS):  # argparse does not check a default of the environment
        raise StartupError(f"MANGROVE_LOG_FORMAT: {options.log_format} is none of {', '.join(LOG_FORMATS)}")
    if options.log_format is not None:
        set_format(options.log_format)
    os.environ["MANGROVE_ACCESS_LOG"] = options.access_log
    directory.lock()
    DiskReserve(directory.data).update()
    directory.prepare()
    stop = StopRequest()
    stop.listen()
    signal.signal(signal.SIGHUP, lambda *_: None)  # until the gateway handles it, and reads the configuration again
    with _listen(host, options.port) as listener:
        url_host = f"[{host}]" if ":" in host else host
        address = f"http://{url_host}:{listener.getsockname()[1]}"
        with maintenance.open_records(directory) as endpoint:
            page = _open_page(options.page)
            holder = ProcessInfo(os.getpid(), address, endpoint.url, endpoint.socket_path, not engine.is_elsewhere())
            directory.write_holder(holder)
            _print_start(address, directory.data, *_run_first_start(directory.data))
            from mangrove.core import descriptors
            from mangrove.core.aws import AwsSession
            from mangrove.standalone.connections import ConnectionLimits
            from mangrove.standalone.leader import TaskLeader
            from mangrove.standalone.processes import choose_count

            runtime.get(AwsSession).forget_descriptions()  # before the routes are imported, which use the memory again
            limits = ConnectionLimits(options.max_connections, options.max_connections_per_address)
            descriptors.raise_limit_at_start()
            with suppress(SystemExit):
                stop.obey()
                count = options.processes or choose_count()
                if count == 1:
                    from mangrove.standalone.gateway import Gateway

                    _run_server(listener, limits, Gateway(page))
                else:
                    _run_processes(TaskLeader.open(count, directory.data), listener, limits, page, stop)
    end_process()


def _open_page(choice: str) -> FrontEndFolder | None:
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
    password = first_start.run(data, lambda: requested_password, passwords.hash_password, ADMIN_PERMISSION)
    return password, first_start.find_short_password()


def _print_start(address: str, data: Path, password: str | None, short: str | None) -> None:
    print(f"Mangrove v{__version__} at {address}, data in {data}")
    if password is not None:
        print(f"First start: sign in as admin with the password {password} (it is not shown again)")
    if short is not None:
        print(f"The password of {short} has fewer than 8 characters: `mangrove password {short}` gives another")
    sys.stdout.flush()


def _run_processes(
    leader: TaskLeader,
    listener: socket.socket,
    limits: ConnectionLimits,
    page: FrontEndFolder | None,
    stop: StopRequest,
) -> None:
    from mangrove.standalone.preload import preload
    from mangrove.standalone.processes import Processes

    def serve(leader: TaskLeader) -> None:
        with suppress(SystemExit):
            stop.obey()
            _run_server(listener, limits, preloaded.gateway, leader)
        end_process()

    listener.setblocking(False)
    preloaded = preload(page, leader)
    processes = Processes(leader, listener, serve, preloaded.shared, stop)
    signal.signal(signal.SIGHUP, lambda *_: processes.reload())
    processes.run()


def _run_server(
    listener: socket.socket, limits: ConnectionLimits, gateway: Gateway, leader: TaskLeader | None = None
) -> None:
    """Answer requests until the process is asked to end. `leader` elects one of the processes that share `listener`."""
    import uvicorn

    from mangrove.core import descriptors
    from mangrove.standalone.connections import ClientConnections
    from mangrove.standalone.sockets import Acceptor

    if not sys.stderr.isatty():
        runtime.get(AccessLog).open(sys.stderr.fileno())
    connections = ClientConnections(limits, descriptors.raise_limit())
    make_protocol = connections.make_protocol()

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            end_within(GRACE_SECONDS + END_SECONDS)
            super().handle_exit(sig, frame)

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if leader is not None:
                self.servers.append(cast("asyncio.Server", Acceptor(listener, self._make_connection)))

        def _make_connection(self) -> Any:
            return make_protocol(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

    server = Server(
        uvicorn.Config(
            gateway,
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


if __name__ == "__main__":
    sys.exit(main())
