"""The reference page of the command line, from its parser."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator

from deployment.generate import Files

HEAD = """# Command line

`make serve` installs the command as `.venv/bin/mangrove`. A variable of the environment replaces the default of its
option. [Operating](../guides/operating.md) lists the variables that have no option, and the
[guide](../guides/command-line.md) has examples and the exit statuses. A command that cannot run prints one line to
standard error and exits with the status 1. This page is derived from the code.
"""
SERVICE = ("serve", "password", "backup", "restore", "doctor", "completion")
VARIABLES = (
    "host", "port", "page", "log_level", "log_format", "access_log", "max_connections", "max_connections_per_address",
    "processes", "data", "url",
)  # fmt: skip
COMMON = ("url", "data", "json", "quiet")
COMMON_TEXT = """
## Commands upon the API

These commands work with the data directory or, with `--url`, with any Mangrove. All of them have these options:

"""
HEAD_OF_TABLE = "| argument | variable | default | purpose |\n|---|---|---|---|\n"
Parser = argparse.ArgumentParser


def generate_reference() -> Files:
    """Derive `docs/reference/command-line.md`: a section for each command."""
    from mangrove.standalone.parser import make_parser  # imported here: the parser uses the client, which is derived

    commands = list(_iter_commands(make_parser({})))
    maintenance = [_render(*row) for row in commands if _get_command(row[0]) in SERVICE]
    clients = [row for row in commands if _get_command(row[0]) not in SERVICE]
    common = [action for action in clients[0][0]._actions if action.dest in COMMON]
    text = COMMON_TEXT + HEAD_OF_TABLE + "".join(map(_render_row, common))
    sections = (_render(command, summary, COMMON) for command, summary in clients)
    return {"docs/reference/command-line.md": HEAD + "".join(maintenance) + text + "".join(sections)}


def _get_command(parser: Parser) -> str:
    return parser.prog.split()[1]


def _iter_commands(parser: Parser) -> Iterator[tuple[Parser, str]]:
    """Yield the parser and the summary of each command, and of the actions of a command."""
    group = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    summaries = {action.dest: str(action.help) for action in group._choices_actions}
    for name, command in group.choices.items():
        if any(isinstance(action, argparse._SubParsersAction) for action in command._actions):
            yield from _iter_commands(command)
        else:
            yield command, summaries[name]


def _render(command: Parser, summary: str, left_out: Collection[str] = ()) -> str:
    arguments = [action for action in command._actions if action.dest not in ("help", *left_out)]
    usage = " ".join([command.prog, "[options]", *(_get_name(each) for each in arguments if not each.option_strings)])
    table = f"\n{HEAD_OF_TABLE}{''.join(map(_render_row, arguments))}" if arguments else ""
    return f"\n## {usage}\n\n{summary[0].upper()}{summary[1:]}.\n{table}"


def _render_row(action: argparse.Action) -> str:
    variable = f"`MANGROVE_{action.dest.upper()}`" if action.dest in VARIABLES else ""
    default = f"`{action.default}`" if action.default not in (None, False, "", 0, []) else ""
    choices = f": {', '.join(map(str, action.choices))}" if action.choices and not action.metavar else ""
    return f"| `{_get_name(action)}` | {variable} | {default} | {action.help}{choices} |\n"


def _get_name(action: argparse.Action) -> str:
    return action.option_strings[-1] if action.option_strings else action.dest.upper()
