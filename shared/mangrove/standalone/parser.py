"""The arguments of `mangrove`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mangrove import __version__
from mangrove.core.config import ACCESS_LOGS
from mangrove.core.http import parse_integer
from mangrove.core.telemetry import LOG_FORMATS

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
SHELLS = ("bash", "zsh", "tcsh")


def make_parser(environment: Mapping[str, str], requested_command: str = "") -> argparse.ArgumentParser:
    """Return the parser of the command line. The variables in `environment` replace defaults.

    A `requested_command` that is `serve` leaves out the commands of the client, which would cost a service 3 MB.
    """
    parser = argparse.ArgumentParser(prog="mangrove", description="Many storages under mount paths, shown as one tree")
    parser.add_argument("--version", action="version", version=f"v{__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    _ServiceCommands(commands, environment).add_all()
    if requested_command != "serve":
        from mangrove.commands.parser import ClientCommands

        ClientCommands(commands, environment).add_all()
    return parser


class _ServiceCommands:
    """The commands that work on a data directory."""

    def __init__(self, commands: Any, environment: Mapping[str, str]) -> None:
        self._commands = commands
        self._environment = environment

    def add_all(self) -> None:
        serve = self._add_serve()
        maintenance = self._add_maintenance()
        doctor = self._commands.add_parser("doctor", help="check this computer and the data directory")
        for command in (serve, doctor):
            self._add_option(command, "host", "127.0.0.1", "address to listen on")
            self._add_option(command, "port", "5244", "port to listen on; 0 chooses a free one")
        for command in (serve, *maintenance, doctor):
            self._add_option(command, "data", "data", "the data directory")
        for command in (*maintenance, doctor):
            command.add_argument("--json", action="store_true", help="print JSON")
        completion = self._commands.add_parser("completion", help="print the completion of commands for a shell")
        completion.add_argument("shell", choices=SHELLS, help="the shell")

    def _add_serve(self) -> argparse.ArgumentParser:
        serve: argparse.ArgumentParser = self._commands.add_parser("serve", help="run the service")
        add_option = self._add_option
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
        return serve

    def _add_maintenance(self) -> Sequence[argparse.ArgumentParser]:
        help = "set a user's password: the one that is typed, otherwise a random one"
        password = self._commands.add_parser("password", help=help)
        password.add_argument("user", help="the user name")
        help = "write records, key and settings into one file; the service may run"
        save = self._commands.add_parser("backup", help=help)
        save.add_argument("file", type=Path, help="the backup to write")
        save.add_argument("--files", action="store_true", help="include the files of the data directory")
        help = "restore a backup into a data directory; no service may run on it"
        restore = self._commands.add_parser("restore", help=help)
        restore.add_argument("file", type=Path, help="the backup to read")
        restore.add_argument("--force", action="store_true", help="replace the content of the data directory")
        return password, save, restore

    def _add_option(
        self, command: argparse.ArgumentParser, name: str, default: str | None, help: str, **rest: Any
    ) -> None:
        variable = f"MANGROVE_{name.replace('-', '_').upper()}"
        command.add_argument(f"--{name}", default=self._environment.get(variable, default), help=help, **rest)


def _parse_limit(text: str) -> int:
    number = parse_integer(text)
    if not number:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return number
