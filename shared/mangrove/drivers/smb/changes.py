"""Changes on a share: uploads, renaming, copies and removals. The calls block, and the server decides each step."""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from contextlib import suppress

from smbprotocol.exceptions import (
    AccessDenied,
    DeletePending,
    DirectoryNotEmpty,
    ObjectNameCollision,
    ObjectNameNotFound,
    SharingViolation,
    SMBException,
    SMBResponseException,
)

from mangrove.core.problems import EntryChanged, EntryExists, EntryNotFound, NotSupported, StorageProblem
from mangrove.drivers.base import Entry, Upload
from mangrove.drivers.part_names import make_part_name
from mangrove.drivers.refusals import refuse_changed
from mangrove.drivers.smb import messages
from mangrove.drivers.smb.client import DISK_ANSWER_TIMEOUT_SECONDS, OpenHandle, Share, require
from mangrove.drivers.smb.errors import make_problem
from mangrove.drivers.smb.files import RemoteFile, make_entry
from mangrove.drivers.smb.messages import Access, CreateOptions, Disposition, FileStatus, Sharing
from mangrove.drivers.threads import StorageThreads

NEW_FILE = Access.READ | Access.WRITE | Access.WRITE_ATTRIBUTES | Access.DELETE
MAX_BUSY_ATTEMPTS, BUSY_RETRY_SECONDS = 20, 0.1  # while another client uses a file for a moment
_GET_RESUME_KEY, _COPY_CHUNK = 0x00140078, 0x001480F2
COPY_CHUNK_BYTES, MAX_COPY_CHUNKS = 1 << 20, 16  # of a request: the limits of Windows


def rename_to_free_name(share: Share, opened: OpenHandle, name: str, target: str) -> None:
    """Rename an open file or folder, atomically with a check that the name is free. Raise EntryExists.

    A file gets a second name and loses the first when it is closed: Samba checks and renames in two steps, so that two
    of its processes may both see a free name. A server without second names renames the file.
    """
    if not opened.status.is_dir and name.casefold() != target.casefold():
        try:
            share.call(messages.link(opened.handle, target))
        except SMBResponseException as error:
            problem = make_problem(error.status)
            if isinstance(problem, EntryExists | EntryNotFound):
                raise
        else:
            share.call(messages.set_deleted(opened.handle))
            return
    share.call(messages.rename(opened.handle, target, replace=False))


def rename_and_replace(share: Share, opened: OpenHandle, target: str) -> None:
    """Rename an open file and replace a file of the name.

    Raise EntryExists for a folder or a name that differs in case.
    """
    for attempt in range(MAX_BUSY_ATTEMPTS):
        try:
            status = share.get_status(target, CreateOptions.REPARSE_POINT)
        except (SMBResponseException, StorageProblem) as error:
            _expect_absent(error)
            status = None
        if status is not None and status.is_dir:
            raise EntryExists
        try:
            if status is None:
                share.call(messages.rename(opened.handle, target, replace=False))
            else:
                _replace_file(share, opened, target)
            return
        except (ObjectNameCollision, SharingViolation):
            if attempt == MAX_BUSY_ATTEMPTS - 1 or (status is None and attempt):
                raise
        except (DeletePending, ObjectNameNotFound):  # the file to be replaced is being removed
            if attempt == MAX_BUSY_ATTEMPTS - 1 or status is None:
                raise
        time.sleep(BUSY_RETRY_SECONDS if status else 0)


def _expect_absent(error: SMBException | StorageProblem) -> None:
    """Raise an error again unless it means that the name is free."""
    problem = make_problem(error.status) if isinstance(error, SMBResponseException) else error
    if not isinstance(problem, EntryNotFound):
        raise error


def _replace_file(share: Share, opened: OpenHandle, target: str) -> None:
    try:
        share.call(messages.rename(opened.handle, target, replace=True))
    except AccessDenied:
        # The old file is being read: it gets another name first, and is removed when it is closed.
        with share.opened(target, Access.DELETE) as old:
            share.call(messages.rename(old.handle, _make_temporary_name(target), replace=False))
            try:
                share.call(messages.rename(opened.handle, target, replace=False))
            except BaseException:
                share.call(messages.rename(old.handle, target, replace=False))
                raise
            share.call(messages.set_deleted(old.handle))


def _make_temporary_name(name: str) -> str:
    folder, slash, _ = name.rpartition("\\")
    return folder + slash + make_part_name()


def move(share: Share, name: str, target: str, overwrite: bool) -> None:
    """Rename a file or folder.

    Raise EntryExists if the name is taken and must not be replaced, or if a folder is involved.
    """
    folder = target.rpartition("\\")[0]
    if folder != name.rpartition("\\")[0]:
        share.get_status(folder)  # fails for a name that differs in case
    with share.opened(name, Access.DELETE, options=CreateOptions.REPARSE_POINT, direct=True) as opened:
        if name.casefold() == target.casefold():
            share.call(messages.rename(opened.handle, target, replace=False))
        elif opened.status.is_dir or not overwrite:
            rename_to_free_name(share, opened, name, target)
        else:
            rename_and_replace(share, opened, target)


def make_folders(share: Share, names: list[str]) -> None:
    """Make the missing ones of several folders, each within the one before it.

    Raise EntryExists if a file has one of the paths.
    """
    missing = len(names)
    while missing:
        try:
            status = share.get_status(names[missing - 1])
        except (SMBResponseException, StorageProblem) as error:
            _expect_absent(error)
            missing -= 1
            continue
        if not status.is_dir:
            raise EntryExists
        break
    for name in names[missing:]:
        try:
            with share.opened(name, 0, options=CreateOptions.DIRECTORY, disposition=Disposition.CREATE):
                pass
        except ObjectNameCollision:
            if not share.get_status(name).is_dir:
                raise


def copy_range(share: Share, source: OpenHandle, copied: OpenHandle, offset: int) -> int:
    """Let the server copy bytes of a file from `offset` on. Return the offset of the rest.

    Raise NotSupported if the server does not copy.
    """
    try:
        key = messages.parse_controlled(share.call(messages.control(source.handle, _GET_RESUME_KEY, b"", 32)))[:24]
        end = min(source.status.size, offset + COPY_CHUNK_BYTES * MAX_COPY_CHUNKS)
        chunks = [(start, min(COPY_CHUNK_BYTES, end - start)) for start in range(offset, end, COPY_CHUNK_BYTES)]
        content = struct.pack("<24sII", key, len(chunks), 0)
        content += b"".join(struct.pack("<QQII", start, start, length, 0) for start, length in chunks)
        answer = share.call(messages.control(copied.handle, _COPY_CHUNK, content, 12), DISK_ANSWER_TIMEOUT_SECONDS)
    except SMBResponseException as error:
        if isinstance(make_problem(error.status), NotSupported) or error.status in messages.REFUSED_CONTROL:
            raise NotSupported from error
        raise
    if struct.unpack("<III", messages.parse_controlled(answer))[2] != end - offset:
        raise EntryChanged("the file became shorter while it was copied")
    return end


def remove_file(share: Share, name: str) -> None:
    """Remove a file or a link.

    Its name is free immediately, even while other clients have it open and allow its removal.
    """
    with share.opened(name, 0, options=CreateOptions.REPARSE_POINT, direct=True) as opened:
        attributes = opened.status.attributes
    remove_listed(share, name, attributes)


def remove_listed(share: Share, name: str, attributes: int) -> None:
    """Remove a file or a link of a listing, as `remove_file` does."""
    if attributes & messages.READ_ONLY:
        with share.opened(name, Access.WRITE_ATTRIBUTES, options=CreateOptions.REPARSE_POINT) as opened:
            share.call(messages.set_attributes(opened.handle, attributes & ~messages.READ_ONLY or messages.NORMAL))
    options = CreateOptions.REPARSE_POINT | CreateOptions.DELETE_ON_CLOSE
    chain = [messages.create(name, Access.DELETE, options=options, sharing=Sharing.NONE), messages.close()]
    try:
        require(share.call_all(chain)[1])
    except SharingViolation:
        with share.opened(name, Access.DELETE, options=CreateOptions.REPARSE_POINT) as opened:
            with suppress(AccessDenied, SharingViolation):
                share.call(messages.rename(opened.handle, _make_temporary_name(name), replace=False))
            share.call(messages.set_deleted(opened.handle))


def remove_folder(share: Share, name: str) -> bool:
    """Remove a folder or a link to one. Return False if the folder is not empty."""
    options = CreateOptions.DIRECTORY | CreateOptions.REPARSE_POINT
    try:
        with share.opened(name, Access.DELETE, options=options, direct=True) as opened:
            share.call(messages.set_deleted(opened.handle))
        return True
    except DirectoryNotEmpty:
        return False


def remove_files(share: Share, folder: str, entries: Sequence[tuple[str, FileStatus]]) -> list[str]:
    """Remove the files and links among the entries of a folder; return the names of its folders.

    Raise StorageProblem for a folder that is a link of the server: Samba removes the link only if its target is empty,
    and the files of the target stay.
    """
    folders: list[str] = []
    if share.is_behind_link(f"{folder}\\{entries[0][0]}"):
        raise StorageProblem(
            f"{folder} is a link of the server, which does not remove it while there is a file behind it"
        )
    for entry, status in entries:
        name = f"{folder}\\{entry}" if folder else entry
        try:
            if not status.is_dir:
                remove_listed(share, name, status.attributes)
            elif not (status.is_link and remove_folder(share, name)):
                folders.append(name)
        except (SMBResponseException, StorageProblem) as error:
            _expect_absent(error)
    return folders


def remove_unchanged(share: Share, name: str, shown: Entry) -> None:
    """Remove an unchanged file. Raise EntryChanged.

    The handle lets other clients only read, which prevents changes between the comparison and the removal.
    """
    options = CreateOptions.FILE | CreateOptions.REPARSE_POINT
    with share.opened(name, Access.DELETE, options=options, sharing=Sharing.READ, direct=True) as opened:
        refuse_changed(make_entry("", opened.status), shown)
        share.call(messages.set_deleted(opened.handle))


def refuse_folder(share: Share, target: str) -> None:
    """Raise EntryExists if a folder has the name of a new file, before the bytes of the file are sent."""
    try:
        is_dir = share.get_status(target).is_dir
    except (SMBException, EntryNotFound):
        return  # any other problem shows when the file is renamed
    if is_dir:
        raise EntryExists


def create_part(share: Share, part: str, threads: StorageThreads) -> RemoteFile:
    """Create an unfinished file."""
    opened = share.open(part, NEW_FILE, options=CreateOptions.FILE, disposition=Disposition.CREATE)
    return RemoteFile(share, opened, threads)


def _publish(share: Share, opened: OpenHandle, part: str, target: str, upload: Upload) -> None:
    """Give a complete file its time and its name."""
    share.call(messages.set_modified(opened.handle, messages.from_seconds(upload.modified)))
    if upload.durable:
        share.flush(opened)
    if upload.overwrite:
        rename_and_replace(share, opened, target)
    else:
        rename_to_free_name(share, opened, part, target)


def sync_folder(share: Share, name: str) -> None:
    """Make the names in a folder survive a power cut, if the server can."""
    with suppress(SMBException), share.opened(name, Access.WRITE, options=CreateOptions.DIRECTORY) as opened:
        share.flush(opened)


def publish_file(share: Share, file: RemoteFile, part: str, target: str, upload: Upload) -> Entry:
    """Give a complete file its time and its name, close it and return its entry."""
    with file.use(share) as opened:
        try:
            _publish(share, opened, part, target, upload)
        finally:
            file.close_now()
    return _finish(share, target, upload.durable)


def _finish(share: Share, target: str, durable: bool) -> Entry:
    if durable:
        sync_folder(share, target.rpartition("\\")[0])
    return make_entry(target.rpartition("\\")[2], share.get_status(target))


def discard_part(share: Share, part: str) -> None:
    """Remove an unfinished file. Raise EntryNotFound."""
    with share.opened(part, Access.DELETE, options=CreateOptions.FILE) as opened:
        share.call(messages.set_deleted(opened.handle))


def begin_parts(share: Share, part: str, target: str, threads: StorageThreads) -> None:
    """Create an unfinished file for the parts of an upload."""
    refuse_folder(share, target)
    create_part(share, part, threads).close_now()


def write_part(share: Share, part: str, offset: int, content: bytes) -> None:
    """Store a part so that it survives a power cut of the server, since its receipt is recorded."""
    with share.opened(part, Access.WRITE, options=CreateOptions.FILE) as opened:
        share.write(opened, offset, content)
        share.flush(opened)


def finish_parts(share: Share, part: str, target: str, size: int, upload: Upload) -> Entry:
    """Assemble a file from its stored parts and return its entry."""
    with share.opened(part, NEW_FILE, options=CreateOptions.FILE) as opened:
        if opened.status.size != size or size != upload.size:
            raise StorageProblem(f"the parts have {opened.status.size} bytes instead of {upload.size}")
        _publish(share, opened, part, target, upload)
    return _finish(share, target, upload.durable)


def open_source(share: Share, name: str, threads: StorageThreads) -> RemoteFile:
    """Open a file for a copy by the server."""
    return RemoteFile(share, share.open(name, Access.READ, options=CreateOptions.FILE), threads)


def copy_file_range(share: Share, source: RemoteFile, copied: RemoteFile, offset: int) -> int:
    """Let the server copy bytes of an open file from `offset` on. Return the offset of the rest."""
    with source.use(share) as read, copied.use(share) as written:
        return copy_range(share, read, written, offset)
