"""The run of a command: its client, its failures and its exit status."""

from __future__ import annotations

import argparse
import os
import sys

from mangrove.client import ClientError, ConnectionFailed
from mangrove.commands.context import Context, OpenLocal, open_client
from mangrove.commands.output import Output, Status


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
