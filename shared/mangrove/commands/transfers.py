"""`get` and `put`: files between the tree and this computer. What is there already is not transferred again."""

from __future__ import annotations

import os
import posixpath
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mangrove.client import ClientError
from mangrove.client.transfers import download, read_time, upload
from mangrove.commands.context import Context
from mangrove.commands.output import Bar, Status, format_size
from mangrove.commands.remote_paths import RemoteEntry, expand, find_entry, make_entry, normalize

STANDARD_STREAM = "-"
MAX_TIME_DIFFERENCE_SECONDS = 2.0  # of files that are the same: some storages count in steps of two seconds
MAX_SHOWN_FAILURES = 1000


@dataclass(slots=True)
class Summary:
    """The result of a transfer."""

    files: int = 0
    bytes: int = 0
    skipped: int = 0
    failed: list[dict[str, str]] = field(default_factory=list)

    def add_failure(self, context: Context, path: str, error: Exception) -> None:
        """Report a file that failed; the others go on."""
        context.output.warn(f"{path}: {error}")
        if len(self.failed) < MAX_SHOWN_FAILURES:
            self.failed.append({"path": path, "error": str(error)})

    def print(self, context: Context) -> int:
        """Print the result and return the exit status."""
        text = f"files: {self.files}, {format_size(self.bytes)}"
        text += f", unchanged: {self.skipped}" if self.skipped else ""
        text += f", failed: {len(self.failed)}" if self.failed else ""
        context.output.print_result(text, files=self.files, bytes=self.bytes, skipped=self.skipped, failed=self.failed)
        return Status.PARTLY if self.failed else Status.DONE


def _is_same(size: int, modified: float, other_size: int, other_modified: float, context: Context) -> bool:
    """True if a file need not be transferred again."""
    if context.options.force or size != other_size:
        return False
    return context.options.size_only or abs(modified - other_modified) <= MAX_TIME_DIFFERENCE_SECONDS


def get(context: Context) -> int:
    """Download files and folders."""
    options = context.options
    *sources, last = options.paths
    if not sources:
        sources, last = [last], "."
    entries = list(expand(context.client, sources, is_literal=options.literal))
    if last == STANDARD_STREAM:
        return _print_file(context, entries)
    target, summary = Path(last), Summary()
    into = target.is_dir() or last.endswith("/") or len(entries) > 1
    with context.output.open_bar("get", sum(entry.size for entry in entries if not entry.is_dir)) as bar:
        for entry in entries:
            path = target / entry.name if into else target
            if not entry.is_dir:
                _get_file(context, entry, path, summary, bar)
            elif not options.recursive:
                raise ClientError(f"{entry.path} is a folder: --recursive copies it")
            else:
                _get_folder(context, entry, path, summary, bar)
    return summary.print(context)


def _print_file(context: Context, entries: list[RemoteEntry]) -> int:
    """Write one file to standard output."""
    if len(entries) != 1 or entries[0].is_dir:
        raise ClientError("standard output takes one file")
    with context.output.open_bar("get", entries[0].size) as bar, context.client.stream(entries[0].path) as response:
        for block in response.iter_bytes():
            sys.stdout.buffer.write(block)
            bar.update(len(block))
    sys.stdout.buffer.flush()
    return Status.DONE


def _get_folder(context: Context, folder: RemoteEntry, target: Path, summary: Summary, bar: Bar) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for path, row in context.client.walk(folder.path):
        entry = make_entry(path, row)
        local = target.joinpath(*Path(path.removeprefix(folder.path).lstrip("/")).parts)
        if entry.is_dir:
            local.mkdir(exist_ok=True)
        else:
            bar.total = (bar.total or 0) + entry.size
            _get_file(context, entry, local, summary, bar)


def _get_file(context: Context, entry: RemoteEntry, target: Path, summary: Summary, bar: Bar) -> None:
    try:
        if target.is_file():
            status = target.stat()
            if _is_same(entry.size, read_time(entry.modified), status.st_size, status.st_mtime, context):
                summary.skipped += 1
                bar.update(entry.size)
                return
        target.parent.mkdir(parents=True, exist_ok=True)
        download(context.client, entry.path, target, notify=bar.update)
    except (ClientError, OSError) as error:
        _refuse_when_hopeless(error)
        summary.add_failure(context, entry.path, error)
        return
    summary.files += 1
    summary.bytes += entry.size
    context.output.report(f"{entry.path} → {target}")


def _refuse_when_hopeless(error: Exception) -> None:
    """Raise a failure that all other files would have, too."""
    if isinstance(error, ClientError) and error.code == 401:
        raise error


def put(context: Context) -> int:
    """Upload files and folders."""
    options = context.options
    target, summary = normalize(options.target), Summary()
    existing = find_entry(context.client, target)
    into = (existing is not None and existing.is_dir) or options.target.endswith("/") or len(options.sources) > 1
    if options.sources == [STANDARD_STREAM]:
        if into:
            raise ClientError(f"{target} is a folder: name the file that standard input becomes")
        with context.output.open_bar("put") as bar:
            upload(context.client, sys.stdin.buffer, target, overwrite=not options.no_overwrite, notify=bar.update)
        summary.files = 1
        summary.bytes = context.client.info(target)["size"]
        return summary.print(context)
    sources = [Path(source) for source in options.sources]
    for source in sources:
        if source.is_dir() and not options.recursive:
            raise ClientError(f"{source} is a folder: --recursive copies it")
        if not source.exists():
            raise ClientError(f"{source} does not exist", problem="NotFound")
    with context.output.open_bar("put", sum(source.stat().st_size for source in sources if source.is_file())) as bar:
        for source in sources:
            path = posixpath.join(target, source.resolve().name) if into else target
            if source.is_dir():
                _put_folder(context, source, path, summary, bar)
            else:
                _put_file(context, source, path, find_entry(context.client, path), summary, bar)
    return summary.print(context)


def _put_folder(context: Context, source: Path, target: str, summary: Summary, bar: Bar) -> None:
    """Upload a folder and everything below it but symbolic links and special files, which are reported."""
    waiting = [(source, target)]
    while waiting:
        folder, path = waiting.pop()
        existing = _list_folder(context, path)
        if existing is None:
            context.client.fs_mkdir(path=path)
        for child in _iter_children(context, folder, summary):
            child_path = posixpath.join(path, child.name)
            if child.is_symlink() or not (child.is_dir() or child.is_file()):
                context.output.warn(f"{child}: neither a file nor a folder, left out")
            elif child.is_dir():
                waiting.append((Path(child.path), child_path))
            else:
                bar.total = (bar.total or 0) + child.stat().st_size
                _put_file(context, Path(child.path), child_path, (existing or {}).get(child.name), summary, bar)


def _iter_children(context: Context, folder: Path, summary: Summary) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as children:
            yield from children
    except OSError as error:
        summary.add_failure(context, str(folder), error)


def _list_folder(context: Context, path: str) -> dict[str, RemoteEntry] | None:
    """Return the entries of a folder by name, None if there is no such folder."""
    try:
        rows = context.client.iter_folder(path)
        return {row["name"]: make_entry(posixpath.join(path, row["name"]), row) for row in rows}
    except ClientError as error:
        if error.is_missing:
            return None
        raise


def _put_file(
    context: Context, source: Path, target: str, existing: RemoteEntry | None, summary: Summary, bar: Bar
) -> None:
    try:
        with source.open("rb") as file:
            status = os.fstat(file.fileno())
            if existing is not None and not existing.is_dir:
                modified = read_time(existing.modified)
                if _is_same(status.st_size, status.st_mtime, existing.size, modified, context):
                    summary.skipped += 1
                    bar.update(status.st_size)
                    return
            overwrite, milliseconds = not context.options.no_overwrite, status.st_mtime_ns // 1_000_000
            upload(context.client, file, target, overwrite=overwrite, modified=milliseconds, notify=bar.update)
    except (ClientError, OSError) as error:
        _refuse_when_hopeless(error)
        summary.add_failure(context, str(source), error)
        return
    summary.files += 1
    summary.bytes += status.st_size
    context.output.report(f"{source} → {target}")
