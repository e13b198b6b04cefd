"""What is renamed, replaced, copied and removed on a share: blocking, each step decided by the server."""

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
from mangrove.drivers.base import Entry
from mangrove.drivers.part_names import make_part_name
from mangrove.drivers.refusals import refuse_changed
from mangrove.drivers.smb import messages
from mangrove.drivers.smb.errors import make_problem
from mangrove.drivers.smb.files import make_entry
from mangrove.drivers.smb.messages import Access, Disposition, Options, Sharing, Status
from mangrove.drivers.smb.share import LONG_SECONDS, Opened, Share, expect

NEW_FILE = Access.READ | Access.WRITE | Access.WRITE_ATTRIBUTES | Access.DELETE
TRIES, PAUSE = 20, 0.1  # seconds, while others hold a file for a moment
_GET_RESUME_KEY, _COPY_CHUNK = 0x00140078, 0x001480F2
CHUNK, CHUNKS = 1 << 20, 16  # what one request copies at most: the limits of Windows


def take_name(share: Share, opened: Opened, name: str, target: str) -> None:
    """Give an open file or folder a name that is free, in one step with the check; EntryExists.

    A file gets it as a second name, and loses the first one when it is closed: Samba looks before it renames, and of
    two of its processes each may find the name free. Where there are no second names it is renamed.
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


def replace(share: Share, opened: Opened, target: str) -> None:
    """Give an open file a name that is free or another file's; EntryExists for a folder, or a name in other letters."""
    for attempt in range(TRIES):
        try:
            status = share.get_status(target, Options.REPARSE_POINT)
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
            if attempt == TRIES - 1 or (status is None and attempt):
                raise
        except (DeletePending, ObjectNameNotFound):  # what is to be replaced is being removed
            if attempt == TRIES - 1 or status is None:
                raise
        time.sleep(PAUSE if status else 0)


def _expect_absent(error: SMBException | StorageProblem) -> None:
    """Raise again what does not mean that there is nothing of the name."""
    problem = make_problem(error.status) if isinstance(error, SMBResponseException) else error
    if not isinstance(problem, EntryNotFound):
        raise error


def _replace_file(share: Share, opened: Opened, target: str) -> None:
    try:
        share.call(messages.rename(opened.handle, target, replace=True))
    except AccessDenied:
        # it is being read: then it has to give up its name first, and goes when it is closed
        with share.opened(target, Access.DELETE) as old:
            aside = _make_name_beside(target)
            share.call(messages.rename(old.handle, aside, replace=False))
            try:
                share.call(messages.rename(opened.handle, target, replace=False))
            except BaseException:
                share.call(messages.rename(old.handle, target, replace=False))
                raise
            share.call(messages.set_deleted(old.handle))


def _make_name_beside(name: str) -> str:
    folder, slash, _ = name.rpartition("\\")
    return folder + slash + make_part_name()


def move(share: Share, name: str, target: str, overwrite: bool) -> None:
    """Rename a file or folder; EntryExists when the name is taken and may not be, or a folder is concerned."""
    folder = target.rpartition("\\")[0]
    if folder != name.rpartition("\\")[0]:
        share.get_status(folder)  # not one that is spelt in other letters
    with share.opened(name, Access.DELETE, options=Options.REPARSE_POINT, direct=True) as opened:
        if name.casefold() == target.casefold():
            share.call(messages.rename(opened.handle, target, replace=False))
        elif opened.status.is_dir or not overwrite:
            take_name(share, opened, name, target)
        else:
            replace(share, opened, target)


def make_folders(share: Share, names: list[str]) -> None:
    """Make folders, each in the one before it, as far as they are not there; EntryExists when something else is."""
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
            with share.opened(name, 0, options=Options.DIRECTORY, disposition=Disposition.CREATE):
                pass
        except ObjectNameCollision:
            if not share.get_status(name).is_dir:
                raise


def copy_range(share: Share, source: Opened, copied: Opened, offset: int) -> int:
    """Copy some bytes of a file by the server; where the rest begins. NotSupported where the server does not."""
    try:
        key = messages.parse_controlled(share.call(messages.control(source.handle, _GET_RESUME_KEY, b"", 32)))[:24]
        end = min(source.status.size, offset + CHUNK * CHUNKS)
        chunks = [(start, min(CHUNK, end - start)) for start in range(offset, end, CHUNK)]
        content = struct.pack("<24sII", key, len(chunks), 0)
        content += b"".join(struct.pack("<QQII", start, start, length, 0) for start, length in chunks)
        answer = share.call(messages.control(copied.handle, _COPY_CHUNK, content, 12), LONG_SECONDS)
    except SMBResponseException as error:
        if isinstance(make_problem(error.status), NotSupported) or error.status in messages.REFUSED_CONTROL:
            raise NotSupported from error
        raise
    if struct.unpack("<III", messages.parse_controlled(answer))[2] != end - offset:
        raise EntryChanged("the file became shorter while it was copied")
    return end


def remove_file(share: Share, name: str) -> None:
    """Remove a file or a link: its name goes at once, also where others have it open and let it go."""
    with share.opened(name, 0, options=Options.REPARSE_POINT, direct=True) as opened:
        attributes = opened.status.attributes
    remove_listed(share, name, attributes)


def remove_listed(share: Share, name: str, attributes: int) -> None:
    """The same for a name of a listing."""
    if attributes & messages.READ_ONLY:
        with share.opened(name, Access.WRITE_ATTRIBUTES, options=Options.REPARSE_POINT) as opened:
            share.call(messages.set_attributes(opened.handle, attributes & ~messages.READ_ONLY or messages.NORMAL))
    options = Options.REPARSE_POINT | Options.DELETE_ON_CLOSE
    chain = [messages.create(name, Access.DELETE, options=options, sharing=Sharing.NONE), messages.close()]
    try:
        expect(share.call_all(chain)[1])
    except SharingViolation:
        with share.opened(name, Access.DELETE, options=Options.REPARSE_POINT) as opened:
            with suppress(AccessDenied, SharingViolation):
                share.call(messages.rename(opened.handle, _make_name_beside(name), replace=False))
            share.call(messages.set_deleted(opened.handle))


def remove_folder(share: Share, name: str) -> bool:
    """Remove a folder, or a link to one; False when it holds something."""
    options = Options.DIRECTORY | Options.REPARSE_POINT
    try:
        with share.opened(name, Access.DELETE, options=options, direct=True) as opened:
            share.call(messages.set_deleted(opened.handle))
        return True
    except DirectoryNotEmpty:
        return False


def remove_files(share: Share, folder: str, found: Sequence[tuple[str, Status]]) -> list[str]:
    """Remove the files and links among the entries of a folder; the names of the folders among them.

    StorageProblem for a folder that is a link of the server: what is behind it stays, and so does the link, which
    Samba removes only when there is nothing behind it.
    """
    folders: list[str] = []
    if share.is_behind_link(f"{folder}\\{found[0][0]}"):
        raise StorageProblem(
            f"{folder} is a link of the server, which does not remove it while there is a file behind it"
        )
    for entry, status in found:
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
    """Remove a file that is what it was; EntryChanged. Nobody can write, rename or remove it between the look and the
    removal: a handle that permits others to read only keeps them out."""
    options = Options.FILE | Options.REPARSE_POINT
    with share.opened(name, Access.DELETE, options=options, sharing=Sharing.READ, direct=True) as opened:
        refuse_changed(make_entry("", opened.status), shown)
        share.call(messages.set_deleted(opened.handle))
