"""Backups of a data directory: one tar archive with the records as of one moment, the key and, on request, the files.

The last member is the manifest, with a checksum of all bytes before it. An archive without a manifest is incomplete.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import stat
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from secrets import token_hex
from typing import IO

from mangrove import __version__
from mangrove.standalone.data_directory import DataDirectory, StartupError, copy_records, explain, sync_folder

FORMAT = 1
MANIFEST = "manifest.json"
STAGING, FILES, SSH = "staging", "files", "ssh"
FOLDERS = (STAGING, FILES, SSH)
BLOCK_BYTES = 1 << 20
OWNER = 0o700  # permissions of restored entries: a data directory is for its owner alone
MANIFEST_BYTES = 1 << 16  # far more than a manifest has


class BrokenBackup(StartupError):
    """The file is not a backup, or not a complete one."""


@dataclass(frozen=True, slots=True)
class BackupManifest:
    """The last member of a backup.

    `format`: of the archive; `program`: the version that made it; `created`: ISO 8601; `data`: the directory that it is
    of; `sha256`: of all bytes before the manifest's own member.
    """

    format: int
    program: str
    created: str
    data: str
    sha256: str


class HashingWriter(io.RawIOBase):
    """A writer that hashes the bytes it passes on."""

    def __init__(self, file: IO[bytes]) -> None:
        self.sha256 = hashlib.sha256()
        self._file = file

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._file.tell()

    def write(self, data: bytes) -> int:  # type: ignore[override]  # all that tarfile writes
        self.sha256.update(data)
        return self._file.write(data)


def save(directory: DataDirectory, target: Path, *, is_running: bool, with_files: bool) -> int:
    """Write a backup that only its owner can read, and return its size in bytes.

    It gets its name when it is complete and on the disk. `is_running`: a service works on the directory meanwhile. All
    changes that were acknowledged before the call are in it.
    """
    if target.resolve().is_relative_to(directory.data):
        raise StartupError("a backup must lie outside of the data directory")
    part = target.with_name(f".{target.name}-{token_hex(4)}")
    records = part.with_name(f"{part.name}.records")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            _write_archive(directory, file, records, is_running=is_running, with_files=with_files)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
        sync_folder(target.parent)
    except OSError as error:
        raise StartupError(f"cannot write the backup {target}: {error.strerror}") from None
    finally:
        part.unlink(missing_ok=True)
        records.unlink(missing_ok=True)
    return target.stat().st_size


def _write_archive(
    directory: DataDirectory, file: IO[bytes], records: Path, *, is_running: bool, with_files: bool
) -> None:
    writer = HashingWriter(file)
    with tarfile.open(fileobj=writer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        if with_files:  # before the records, whose tasks may wait for these files
            _add_folder(archive, directory.data, STAGING)
        copy_records(directory.records, records, is_running=is_running)
        _add(archive, records, directory.records.name)
        _add(archive, directory.key, directory.key.name)
        _add(archive, directory.schema, directory.schema.name)
        _add_folder(archive, directory.data, SSH)
        if with_files:  # after the records, because a task that finished meanwhile made files there
            _add_folder(archive, directory.data, FILES)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        manifest = BackupManifest(FORMAT, __version__, now, str(directory.data), writer.sha256.hexdigest())
        content = json.dumps(asdict(manifest)).encode()
        member = tarfile.TarInfo(MANIFEST)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))


def _add_folder(archive: tarfile.TarFile, data: Path, folder: str) -> None:
    """Add a folder and everything below it: folders, files and links. Links are not followed."""
    waiting = [folder]
    while waiting:
        name = waiting.pop()
        _add(archive, data / name, name)
        if (data / name).is_dir() and not (data / name).is_symlink():
            waiting += [f"{name}/{entry.name}" for entry in os.scandir(data / name)]


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    """Add an entry under a name. Skip it if it was removed meanwhile, or is not a folder, file or link."""
    try:
        status = path.lstat()
        member = tarfile.TarInfo(name)
        member.mode, member.mtime = stat.S_IMODE(status.st_mode), status.st_mtime
        if stat.S_ISREG(status.st_mode):
            with path.open("rb") as file:
                member.size = os.fstat(file.fileno()).st_size
                archive.addfile(member, file)
        elif stat.S_ISDIR(status.st_mode):
            member.type = tarfile.DIRTYPE
            archive.addfile(member)
        elif stat.S_ISLNK(status.st_mode):
            member.type, member.linkname = tarfile.SYMTYPE, os.readlink(path)
            archive.addfile(member)
    except FileNotFoundError:
        return
    except tarfile.ReadError:  # the file ended before its size
        raise StartupError(f"{path} changed while it was read: make the backup again") from None
    finally:
        archive.members.clear()  # type: ignore[attr-defined]  # they would be as many as the files


def restore(directory: DataDirectory, source: Path, *, force: bool) -> BackupManifest:
    """Restore a backup into a locked data directory, completely or not at all. Raise StartupError.

    With `force`, the directory may have content, and the entries of the backup replace it.
    """
    try:
        directory.take_restored()
        if not force and any(entry.name != "mangrove.lock" for entry in directory.data.iterdir()):
            raise StartupError(f"{directory.data} is not empty: --force replaces what is there")
        with open(source, "rb") as file:
            manifest = _verify(file, source)
            part = directory.data / ".restoring"
            if part.exists():  # left by a restore that was interrupted
                shutil.rmtree(part)
            part.mkdir(mode=0o700)
            try:
                _extract(file, part)
                os.rename(
                    part, directory.restored
                )  # from here on the restore takes effect, at the latest at the next start
            finally:
                shutil.rmtree(part, ignore_errors=True)
        sync_folder(directory.data)
        directory.take_restored()
    except tarfile.TarError:
        raise BrokenBackup(f"{source} is not a backup of Mangrove") from None
    except OSError as error:
        if error.filename == str(source):
            raise StartupError(f"cannot read {source}: {error.strerror}") from None
        raise explain(directory.data, error) from None
    return manifest


def _verify(file: IO[bytes], source: Path) -> BackupManifest:
    """Return the manifest of a backup after checking its checksum."""
    with _open_archive(file) as archive:
        member: tarfile.TarInfo | None = None
        for info in _iter_members(archive):
            member = info
        content = archive.extractfile(member) if member is not None and member.size < MANIFEST_BYTES else None
        if member is None or member.name != MANIFEST or content is None:
            raise BrokenBackup(f"{source} is not a complete backup of Mangrove")
        try:
            manifest = BackupManifest(**json.loads(content.read()))
        except (ValueError, TypeError):
            raise BrokenBackup(f"{source} is a backup of another version of Mangrove") from None
    if manifest.format != FORMAT:
        raise BrokenBackup(f"{source} is a backup of format {manifest.format}, this version knows format {FORMAT}")
    if _hash(file, member.offset) != manifest.sha256:
        raise BrokenBackup(f"{source} is damaged: its checksum does not match")
    return manifest


def _hash(file: IO[bytes], length: int) -> str:
    """Return the SHA-256 of the first `length` bytes, in hex."""
    file.seek(0)
    sha256 = hashlib.sha256()
    while length > 0 and (block := file.read(min(BLOCK_BYTES, length))):
        sha256.update(block)
        length -= len(block)
    return sha256.hexdigest()


@contextmanager
def _open_archive(file: IO[bytes]) -> Iterator[tarfile.TarFile]:
    file.seek(0)
    with tarfile.open(fileobj=file, mode="r:") as archive:
        yield archive


def _iter_members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yield all members without keeping them in memory."""
    while (member := archive.next()) is not None:
        yield member
        archive.members.clear()  # type: ignore[attr-defined]  # left out of typeshed


def _extract(file: IO[bytes], target: Path) -> None:
    """Unpack all members but the manifest into a folder and write them to the disk.

    Nothing is written outside of the folder. Links come last, when no file is written any more, and the times of
    folders after their content.
    """
    links: list[tuple[Path, str]] = []
    folders: list[tuple[Path, tarfile.TarInfo]] = []
    with _open_archive(file) as archive:
        for member in _iter_members(archive):
            path = _place(target, member)
            if member.isdir():
                path.mkdir(mode=0o700)
                folders.append((path, member))
            elif member.issym():
                links.append((path, member.linkname))
            elif member.name != MANIFEST:
                _extract_file(archive, member, path)
    for path, link in links:
        path.symlink_to(link)
    for path, member in reversed(folders):
        os.utime(path, (member.mtime, member.mtime))
        path.chmod(member.mode & OWNER)
    os.sync()


def _place(target: Path, member: tarfile.TarInfo) -> Path:
    """Return the target of a member. Raise BrokenBackup for a member that no backup has."""
    name = PurePosixPath(member.name)
    if member.isfile() and member.name in (MANIFEST, "records.db", "key", "schema"):
        return target / name
    is_plain = member.isfile() or member.isdir() or member.issym()
    if name.parts[:1] not in [(folder,) for folder in FOLDERS] or ".." in name.parts or not is_plain:
        raise BrokenBackup(f"the backup has an unexpected entry: {member.name[:200]}")
    return target / name


def _extract_file(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    content = archive.extractfile(member)
    if content is None:
        raise BrokenBackup(f"the backup has an unreadable entry: {member.name[:200]}")
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        shutil.copyfileobj(content, file, BLOCK_BYTES)
        file.flush()
        os.fchmod(file.fileno(), member.mode & OWNER)
        os.utime(file.fileno(), (member.mtime, member.mtime))


def move_local_storages(old: Path, new: Path) -> list[str]:
    """Move the Local storages in the old data directory to the new one, and return their mount paths."""
    from mangrove.drivers import registry
    from mangrove.records import storages  # imported here, because the records are open only now

    moved = []
    for storage in storages.all():
        addition = json.loads(storage.addition) if registry.needs_disk(storage.driver) else {}
        root = Path(addition.get("root_folder_path") or "/")
        if root.is_relative_to(old):
            addition["root_folder_path"] = str(new / root.relative_to(old))
            storages.replace_addition(storage.id, storage.addition, json.dumps(addition))
            moved.append(storage.mount_path)
    return moved
