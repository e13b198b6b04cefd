"""States of tasks, delete policies, and names of tasks, which clients read; see docs/reference/compatibility.md."""

from __future__ import annotations

from enum import IntEnum

from mangrove.core.paths import TreePath


class State(IntEnum):
    """The states of tasks; the text of a state is its name in lower case."""

    PENDING = 0
    RUNNING = 1
    SUCCEEDED = 2
    CANCELING = 3
    CANCELED = 4
    ERRORED = 5
    FAILING = 6
    FAILED = 7
    WAITING_RETRY = 8
    BEFORE_RETRY = 9


DELETE_ON_SUCCESS = "delete_on_upload_succeed"
DELETE_NEVER = "delete_never"
DELETE_POLICIES: dict[str, tuple[State, ...]] = {
    DELETE_ON_SUCCESS: (State.SUCCEEDED,),
    "delete_on_upload_failed": (State.FAILED,),
    DELETE_NEVER: (),
    "delete_always": (State.SUCCEEDED, State.FAILED),
    "upload_download_stream": (State.SUCCEEDED, State.FAILED),  # asks for no file in between: nothing is left of ours
}  # the states of a transfer in which the bytes that were brought into staging are removed


def format_upload_name(file: str, mount: TreePath, folder: TreePath) -> str:
    """`folder` inside the storage."""
    return f"upload {file} to [{mount}]({folder})"


def format_download_name(url: str, folder: TreePath) -> str:
    """`folder` in the tree."""
    return f"download {url} to ({folder})"


def format_staged_name(path: TreePath, mount: TreePath, folder: TreePath) -> str:
    """The transfer of what was downloaded; `path` in staging, `folder` inside the storage."""
    return f"transfer []({path}) to [{mount}]({folder})"


def format_decompress_name(
    mount: TreePath, path: TreePath, inner: TreePath, to_mount: TreePath, folder: TreePath, password: str
) -> str:
    """Paths inside the storages, `inner` inside the archive; of the password only whether there is one."""
    return (
        f"decompress [{mount}]({path})[{inner}] to [{to_mount}]({folder}) with password <{'***' if password else ''}>"
    )


def format_index_name(mount: str) -> str:
    """The walk of a storage."""
    return f"index [{mount}]"


def format_transfer_name(verb: str, mount: TreePath, path: str, to_mount: TreePath, to_folder: TreePath) -> str:
    """`verb`: copy, merge or move; paths inside the storages."""
    return f"{verb} [{mount}]({path}) to [{to_mount}]({to_folder})"


def format_removal_name(verb: str, mount: TreePath, path: str) -> str:
    """`verb`: that of the interface; the path inside the storage."""
    return f"{verb} [{mount}]({path})"


def format_many(first: TreePath, count: int) -> str:
    """What stands for the path in the name of a task over `count` entries of a folder."""
    return str(first) if count == 1 else f"{first} and {count - 1} more"
