"""Commands that maintain a data directory: `password`, `backup`, `restore` and `doctor`."""

from __future__ import annotations

import argparse
import getpass
import json
import os
import secrets
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mangrove.records.store.endpoints import EngineEndpoint
from mangrove.standalone import engine
from mangrove.standalone.data_directory import DataDirectory, StartupError


@contextmanager
def open_records(directory: DataDirectory) -> Iterator[EngineEndpoint]:
    """Return the endpoint of the records, ready for use in this process."""
    with engine.run_engine(directory.data) as endpoint:
        engine.set_environment(directory, endpoint)
        _open_tables(directory, endpoint)
        yield endpoint


def _open_tables(directory: DataDirectory, endpoint: EngineEndpoint) -> None:
    from mangrove.standalone import upgrade  # imported here, because the names of tables come from the environment

    upgrade.open_tables(directory, endpoint)


def change_password(directory: DataDirectory, options: argparse.Namespace) -> None:
    """Set a password, through the records engine of the service that runs on the data directory, or through an own
    engine.
    """
    user = options.user
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
        with open_records(directory):
            _set_password(user, password)
    shown = {"password": password} if is_made_up else {}
    text = f"The new password of {user} is {password}" if is_made_up else f"The password of {user} is changed"
    _print(options, text, username=user, **shown)


def _print(options: argparse.Namespace, text: str, **fields: Any) -> None:
    print(json.dumps(fields, ensure_ascii=False, indent=2) if options.json else text)


def _set_password(user: str, password: str) -> None:
    from mangrove.identity import accounts

    accounts.set_password(user, password)


def save_backup(directory: DataDirectory, options: argparse.Namespace) -> None:
    """Write a backup."""
    from mangrove.standalone import backup  # imported here, because a service does not need it

    file: Path = options.file
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
    size = backup.save(directory, file, is_running=is_running, with_files=options.files)
    text = f"The backup {file} has {size:,} bytes, and the key in it opens the secrets of the records: keep it safe"
    _print(options, text, file=str(file), bytes=size)


def restore_backup(directory: DataDirectory, options: argparse.Namespace) -> None:
    """Restore a backup."""
    from mangrove.standalone import backup

    file: Path = options.file
    if engine.is_elsewhere():
        raise StartupError("the records are kept by another engine: restore them there")
    directory.lock()
    manifest = backup.restore(directory, file, force=options.force)
    text, moved = f"Restored {file} of {manifest.created} into {directory.data}", list[str]()
    if manifest.data != str(directory.data):
        directory.prepare()
        with open_records(directory):
            moved = backup.move_local_storages(Path(manifest.data), directory.data)
        names = ", ".join(moved)
        text += f"\nIt was made of {manifest.data}. Storages that were in it are in {directory.data} now: {names}"
    _print(options, text, file=str(file), created=manifest.created, data=str(directory.data), moved=moved)


def examine(directory: DataDirectory, options: argparse.Namespace) -> int:
    """Print what `mangrove doctor` finds, and return its exit status: 1 if a line is a warning."""
    from mangrove.standalone import doctor  # imported here, because the other commands do not need it

    findings = []
    for finding in doctor.Doctor(directory, options.host, options.port).examine():
        findings.append(finding)
        if not options.json:
            print(finding.line, flush=True)
    if options.json:
        print(json.dumps(doctor.make_document(findings), ensure_ascii=False, indent=2))
    return 1 if any(finding.advice for finding in findings) else 0
