"""Files that are stored on a share under another name until they are whole."""

from __future__ import annotations

from contextlib import suppress

from smbprotocol.exceptions import SMBException

from mangrove.core.problems import EntryExists, EntryNotFound, StorageProblem
from mangrove.drivers.base import Entry, Upload
from mangrove.drivers.smb import changes, messages
from mangrove.drivers.smb.changes import NEW_FILE
from mangrove.drivers.smb.files import RemoteFile, make_entry
from mangrove.drivers.smb.messages import Access, Disposition, Options
from mangrove.drivers.smb.share import Opened, Share
from mangrove.drivers.threads import StorageThreads


def refuse_folder(share: Share, target: str) -> None:
    """EntryExists when a folder has the name that a file is to have: before its bytes are sent, and not after."""
    try:
        is_dir = share.get_status(target).is_dir
    except (SMBException, EntryNotFound):
        return  # what is wrong with it shows when the file is to get its name
    if is_dir:
        raise EntryExists


def create_part(share: Share, part: str, threads: StorageThreads) -> RemoteFile:
    """A new file that is not whole."""
    opened = share.open(part, NEW_FILE, options=Options.FILE, disposition=Disposition.CREATE)
    return RemoteFile(share, opened, threads)


def publish(share: Share, opened: Opened, part: str, target: str, upload: Upload) -> None:
    """Give a whole file its times and its name."""
    share.call(messages.set_modified(opened.handle, messages.from_seconds(upload.modified)))
    if upload.durable:
        share.flush(opened)
    if upload.overwrite:
        changes.replace(share, opened, target)
    else:
        changes.take_name(share, opened, part, target)


def sync_folder(share: Share, name: str) -> None:
    """Have the names in a folder survive a power cut, where the server can."""
    with suppress(SMBException), share.opened(name, Access.WRITE, options=Options.DIRECTORY) as opened:
        share.flush(opened)


def publish_file(share: Share, file: RemoteFile, part: str, target: str, upload: Upload) -> Entry:
    """`publish`, and what is there then."""
    with file.use(share) as opened:
        try:
            publish(share, opened, part, target, upload)
        finally:
            file.close_now()
    return _finish(share, target, upload.durable)


def _finish(share: Share, target: str, durable: bool) -> Entry:
    if durable:
        sync_folder(share, target.rpartition("\\")[0])
    return make_entry(target.rpartition("\\")[2], share.get_status(target))


def discard(share: Share, part: str) -> None:
    """Remove an unfinished file, if it is there."""
    with share.opened(part, Access.DELETE, options=Options.FILE) as opened:
        share.call(messages.set_deleted(opened.handle))


def begin(share: Share, part: str, target: str, threads: StorageThreads) -> None:
    refuse_folder(share, target)
    create_part(share, part, threads).close_now()


def write_part(share: Share, part: str, offset: int, content: bytes) -> None:
    """Store a part so that it is there when the server comes back from a power cut: its receipt is recorded."""
    with share.opened(part, Access.WRITE, options=Options.FILE) as opened:
        share.write(opened, offset, content)
        share.flush(opened)


def finish(share: Share, part: str, target: str, size: int, upload: Upload) -> Entry:
    with share.opened(part, NEW_FILE, options=Options.FILE) as opened:
        if opened.status.size != size or size != upload.size:
            raise StorageProblem(f"the parts have {opened.status.size} bytes instead of {upload.size}")
        publish(share, opened, part, target, upload)
    return _finish(share, target, upload.durable)


def open_source(share: Share, name: str, threads: StorageThreads) -> RemoteFile:
    """A file that is to be copied by the server."""
    return RemoteFile(share, share.open(name, Access.READ, options=Options.FILE), threads)


def copy_range(share: Share, source: RemoteFile, copied: RemoteFile, offset: int) -> int:
    """Copy some bytes; where the rest begins."""
    with source.use(share) as read, copied.use(share) as written:
        return changes.copy_range(share, read, written, offset)
