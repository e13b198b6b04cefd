"""The reference page of the command line, from its parser."""

from __future__ import annotations

import argparse

from deployment.generate import Files
from mangrove.standalone.__main__ import make_parser

HEAD = """# Command line

`make serve` installs the command as `.venv/bin/mangrove`. A variable of the environment replaces the default of its
option. [Operating](../guides/operating.md) lists the variables that have no option. A command that cannot run prints
one line to standard error and exits with the status 1. This page is derived from the code.
"""


def generate_reference() -> Files:
    """Derive `docs/reference/command-line.md`: a section for each command."""
    commands = next(action for action in make_parser({})._actions if isinstance(action, argparse._SubParsersAction))
    summaries = {action.dest: str(action.help) for action in commands._choices_actions}
    sections = (_render(command, summaries[name]) for name, command in commands.choices.items())
    return {"docs/reference/command-line.md": HEAD + "".join(sections)}


def _render(command: argparse.ArgumentParser, summary: str) -> str:
    arguments = [action for action in command._actions if action.dest != "help"]
    usage = " ".join([command.prog, "[options]", *(_get_name(each) for each in arguments if not each.option_strings)])
    head = "| argument | variable | default | purpose |\n|---|---|---|---|\n"
    rows = "".join(map(_render_row, arguments))
    return f"\n## {usage}\n\n{summary[0].upper()}{summary[1:]}.\n\n{head}{rows}"


def _render_row(action: argparse.Action) -> str:
    variable = f"`MANGROVE_{action.dest.upper()}`" if action.option_strings and action.nargs != 0 else ""
    default = f"`{action.default}`" if action.default not in (None, False, "") else ""
    choices = f": {', '.join(map(str, action.choices))}" if action.choices else ""
    return f"| `{_get_name(action)}` | {variable} | {default} | {action.help}{choices} |\n"


def _get_name(action: argparse.Action) -> str:
    return action.option_strings[-1] if action.option_strings else action.dest.upper()
