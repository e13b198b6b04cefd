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
from mangrove.local import engine
from mangrove.local.engine import DataDirectory, StartupError
from mangrove.problems import Problem

GRACE_SECONDS = 5  # for requests under way when the service ends


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
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
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """Run a command; its exit status. A reason not to run is one line on standard error."""
    chosen = _arguments(given)
    home = DataDirectory(Path(chosen.data).resolve())
    try:
        if chosen.command == "serve":
            _serve(home, chosen.host, chosen.port)
        else:
            _password(home, chosen.user)
    except (StartupError, Problem) as reason:
        print(f"mangrove: {reason}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass  # asked for
    return 0


def _listening(host: str, port: str) -> socket.socket:
    if not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise StartupError(f"{port} is no port")
    try:
        return socket.create_server((host, int(port)), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        reason = str(error.strerror).partition(" (while")[0]  # Python adds the address once more
        raise StartupError(f"cannot listen on {host}:{port}: {reason}") from None


@contextmanager
def _records(home: DataDirectory) -> Iterator[str]:
    with engine.running(home.data) as endpoint:
        engine.enter(home, endpoint)
        engine.create_tables(endpoint)
        yield endpoint


def _serve(home: DataDirectory, host: str, port: str) -> None:
    home.hold()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGHUP, lambda *_: None)  # until the gateway listens to it, and reads everything anew
    with _listening(host, port) as listening:
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{listening.getsockname()[1]}"
        with _records(home) as endpoint:
            home.say({"pid": os.getpid(), "address": address, "engine": endpoint})
            _greet(address, home.data, _first_start(home.data))
            try:
                _run(listening)
            except (SystemExit, KeyboardInterrupt):
                pass  # asked for
    sys.stderr.flush()
    os._exit(0)  # a thread that still waits for a storage must not hold up the end


def _first_start(data: Path) -> str | None:
    from mangrove.identity import passwords
    from mangrove.identity.rights import ADMIN_PERMISSION
    from mangrove.site import first_start

    given = os.environ.pop("MANGROVE_ADMIN_PASSWORD", "")
    return first_start.run(data, given, passwords.hash_password, ADMIN_PERMISSION)


def _greet(address: str, data: Path, password: str | None) -> None:
    print(f"Mangrove v{__version__} at {address}, data in {data}")
    if password is not None:
        print(f"First start: sign in as admin with the password {password} (it is not shown again)")
    sys.stdout.flush()


def _run(listening: socket.socket) -> None:
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
    server.run(sockets=[listening])


def _password(home: DataDirectory, user: str) -> None:
    password = getpass.getpass(f"New password for {user}: ") if sys.stdin.isatty() else sys.stdin.readline().strip()
    shown = not password
    password = password or secrets.token_urlsafe(12)
    if not home.key.exists():
        raise StartupError(f"{home.data} is no data directory of Mangrove")
    facts = home.holder()
    try:
        home.hold()
    except StartupError:
        if "engine" not in facts:
            raise
        engine.enter(home, facts["engine"])
        _set_password(user, password)
        os.kill(int(facts["pid"]), signal.SIGHUP)
    else:
        with _records(home):
            _set_password(user, password)
    print(f"The new password of {user} is {password}" if shown else f"The password of {user} is changed")


def _set_password(user: str, password: str) -> None:
    from mangrove.identity import accounts

    accounts.set_password(user, password)


if __name__ == "__main__":
    sys.exit(main())
