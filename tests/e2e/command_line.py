"""Commands as a user of a shell runs them, in this process or in one of their own."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mangrove.commands.context import run
from mangrove.standalone.local_client import open_local_client
from mangrove.standalone.parser import make_parser
from tests.support.service import command

COMMAND_SECONDS = 300


@dataclass
class CommandLine:
    """Runs commands with `--url` in this process; `token` is sent, "" for the stored one."""

    address: str
    token: str
    capture: pytest.CaptureFixture[str]
    patch: pytest.MonkeyPatch

    def run(self, *arguments: str, typed: str = "") -> tuple[int, str, str]:
        """Return the exit status, standard output and standard error. `typed` is standard input."""
        if self.token:
            self.patch.setenv("MANGROVE_TOKEN", self.token)
        else:
            self.patch.delenv("MANGROVE_TOKEN", raising=False)
        self.patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed.encode())))
        options = make_parser({"MANGROVE_URL": self.address}).parse_args(arguments)
        status = run(options, open_local_client)
        return status, *self.capture.readouterr()

    def ok(self, *arguments: str, typed: str = "") -> str:
        """Return what a command prints that must succeed."""
        status, printed, errors = self.run(*arguments, typed=typed)
        assert status == 0, (arguments, printed, errors)
        return printed

    def json(self, *arguments: str, typed: str = "") -> Any:
        """Return the document that a command prints with `--json`."""
        return json.loads(self.ok(*arguments, "--json", typed=typed))

    def refuse(self, *arguments: str, typed: str = "") -> tuple[int, str]:
        """Return the exit status and the one line of a command that must fail."""
        status, printed, errors = self.run(*arguments, typed=typed)
        assert status != 0 and printed == "" and errors.count("\n") == 1, (status, printed, errors)
        return status, errors.removeprefix("mangrove: ").strip()


def run_alone(*arguments: str, typed: bytes = b"", **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a process of its own."""
    return subprocess.run(
        command(*arguments), input=typed, capture_output=True, env=os.environ | environment, timeout=COMMAND_SECONDS,
    )  # fmt: skip


def read_tree(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder by their relative paths."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
