"""The context of a command: its client, its options and its output; and its run."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from mangrove.client import Client, ClientError, ConnectionFailed
from mangrove.commands import tokens
from mangrove.commands.output import Output, Status

MAX_SECRET_CHARACTERS = 1 << 16  # of a line of standard input
TOKEN_VARIABLE = "MANGROVE_TOKEN"


@dataclass(frozen=True, slots=True)
class Context:
    """A command that runs."""

    client: Client
    options: argparse.Namespace
    output: Output


Run = Callable[[Context], int]
OpenLocal = Callable[[argparse.Namespace], AbstractContextManager[Client]]
"""Returns a client of the data directory of the options, signed in as the administrator."""


def open_client(options: argparse.Namespace, open_local: OpenLocal) -> AbstractContextManager[Client]:
    """Return the client of a command: of the service at `--url`, or of the data directory."""
    if not options.url:
        return open_local(options)
    return Client(options.url, os.environ.get(TOKEN_VARIABLE) or tokens.read(options.url))


def read_secret(prompt: str) -> str:
    """Return a secret: typed without an echo, or the first line of standard input."""
    if sys.stdin.isatty():
        return getpass.getpass(f"{prompt}: ")
    line = sys.stdin.readline(MAX_SECRET_CHARACTERS + 1)
    if len(line) > MAX_SECRET_CHARACTERS:
        raise ClientError(f"the first line of standard input has more than {MAX_SECRET_CHARACTERS} characters")
    return line.rstrip("\r\n")


def run(options: argparse.Namespace, open_local: OpenLocal) -> int:
    """Run the command of the options and return its exit status. If it fails, print one line on standard error."""
    output = Output(is_json=options.json, is_quiet=options.quiet)
    try:
        with open_client(options, open_local) as client:
            return int(options.run(Context(client, options, output)))
    except ConnectionFailed as error:
        output.warn(str(error))
        return Status.UNREACHABLE
    except ClientError as error:
        output.warn(str(error))
        return Status.MISSING if error.is_missing else Status.DENIED if error.is_denied else Status.FAILED
    except BrokenPipeError:  # the reader of standard output has ended, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Status.FAILED
    except OSError as error:
        output.warn(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        return Status.FAILED
    except KeyboardInterrupt:
        return Status.INTERRUPTED
