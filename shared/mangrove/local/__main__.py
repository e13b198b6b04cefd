"""`mangrove serve`: the whole service on one machine. `mangrove password <user>`: a new password."""

from __future__ import annotations

import argparse
import getpass
import os
import secrets
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mangrove import __version__
from mangrove.integers import parse_integer
from mangrove.local import engine
from mangrove.local.data_directory import DataDirectory, ProcessInfo, StartupError
from mangrove.problems import Problem

GRACE_SECONDS = 5  # for requests under way when the service ends


def _parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    env = os.environ
    parser = argparse.ArgumentParser(prog="mangrove", description="Many storages under mount paths, shown as one tree")
    parser.add_argument("--version", action="version", version=f"v{__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", help="run the service")
    serve.add_argument("--host", default=env.get("MANGROVE_HOST", "127.0.0.1"))
    serve.add_argument("--port", default=env.get("MANGROVE_PORT", "5244"))
    password = commands.add_parser("password", help="give a user a new password, made up unless one is typed in")
    password.add_argument("user")
    for command in (serve, password):
        command.add_argument("--data", default=env.get("MANGROVE_DATA", "data"), help="the data directory")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit status. A reason not to run is one line on standard error."""
    options = _parse_arguments(arguments)
    directory = DataDirectory(Path(options.data).resolve())
    try:
        if options.command == "serve":
            _serve(directory, options.host, options.port)
        else:
            _change_password(directory, options.user)
    except (StartupError, Problem) as reason:
        print(f"mangrove: {reason}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass  # asked for
    return 0


def _listen(host: str, port: str) -> socket.socket:
    number = parse_integer(port)
    if number is None or number > 65535:
        raise StartupError(f"{port} is no port")
    try:
        return socket.create_server((host, number), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        reason = str(error.strerror).partition(" (while")[0]  # Python adds the address once more
        raise StartupError(f"cannot listen on {host}:{port}: {reason}") from None


@contextmanager
def _open_records(directory: DataDirectory) -> Iterator[str]:
    """The endpoint of the records, ready for use in this process."""
    with engine.run_engine(directory.data) as endpoint:
        engine.set_environment(directory, endpoint)
        engine.create_tables(endpoint)
        yield endpoint


def _serve(directory: DataDirectory, host: str, port: str) -> None:
    directory.lock()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGHUP, lambda *_: None)  # until the gateway handles it, and reads everything anew
    with _listen(host, port) as listener:
        url_host = f"[{host}]" if ":" in host else host
        address = f"http://{url_host}:{listener.getsockname()[1]}"
        with _open_records(directory) as endpoint:
            directory.write_holder(ProcessInfo(os.getpid(), address, endpoint))
            _print_start(address, directory.data, _run_first_start(directory.data))
            try:
                _run_server(listener)
            except (SystemExit, KeyboardInterrupt):
                pass  # asked for
    sys.stderr.flush()
    os._exit(0)  # a thread that still waits for a storage must not hold up the end


def _run_first_start(data: Path) -> str | None:
    """The administrator's password if this is the first start and it was made up."""
    from mangrove.identity import passwords
    from mangrove.identity.rights import ADMIN_PERMISSION
    from mangrove.site import first_start

    wanted = os.environ.pop("MANGROVE_ADMIN_PASSWORD", "")
    return first_start.run(data, wanted, passwords.hash_password, ADMIN_PERMISSION)


def _print_start(address: str, data: Path, password: str | None) -> None:
    print(f"Mangrove v{__version__} at {address}, data in {data}")
    if password is not None:
        print(f"First start: sign in as admin with the password {password} (it is not shown again)")
    sys.stdout.flush()


def _run_server(listener: socket.socket) -> None:
    import uvicorn

    from mangrove.local.gateway import Gateway

    server = uvicorn.Server(
        uvicorn.Config(
            Gateway(),
            loop="uvloop",
            http="httptools",
            lifespan="on",
            access_log=False,
            log_config=None,
            log_level="warning",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
    )
    server.run(sockets=[listener])


def _change_password(directory: DataDirectory, user: str) -> None:
    """Through the records engine of the service that runs on the data directory, or one of our own."""
    password = getpass.getpass(f"New password for {user}: ") if sys.stdin.isatty() else sys.stdin.readline().strip()
    is_made_up = not password
    password = password or secrets.token_urlsafe(12)
    if not directory.key.exists():
        raise StartupError(f"{directory.data} is no data directory of Mangrove")
    holder = directory.read_holder()
    try:
        directory.lock()
    except StartupError:
        if holder is None or not holder.engine:
            raise
        engine.set_environment(directory, holder.engine)
        _set_password(user, password)
        os.kill(holder.pid, signal.SIGHUP)
    else:
        with _open_records(directory):
            _set_password(user, password)
    print(f"The new password of {user} is {password}" if is_made_up else f"The password of {user} is changed")


def _set_password(user: str, password: str) -> None:
    from mangrove.identity import accounts

    accounts.set_password(user, password)


if __name__ == "__main__":
    sys.exit(main())
