"""The names in staging that each function may write: one that stores foreign bytes cannot change the list of a task."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from tests.support.policies import FUNCTIONS, read_inline, read_managed

STAGING = "staging"
EVERY_NAME = "*"
WRITES = {"s3:PutObject", "s3:DeleteObject"}
WRITTEN = {
    "FilesFunction": {"*/names-*", "*/selection"},
    "McpFunction": {"*/names-*"},
    "UploadsFunction": {"*/body"},
    "DownloadsFunction": {"served/*"},
    "DavFunction": {"served/*"},
    "TransferPlan": {"*/entries-*", "*/folders-*"},
    "TransferMove": {"*/entries-*", "*.parts/*"},
    "TransferPart": {"*/part-*", "*/failed-*", "*.parts/*"},
    "TransferSettle": {"abandoned/*"},
    "RemoveRemove": {"*/folders-*"},
    "DownloadPoll": {"*/body/*", "*.parts/*"},
    "DecompressPlan": {"*/archive", "*.parts/*"},
    "DecompressExtract": {"*/body/*"},
    "CompressPlan": {"*/packed-*", "abandoned/*"},
    "CompressPack": {EVERY_NAME},  # users name the archive
    "CompressSettle": {"abandoned/*", "*/.mangrove"},
    "IndexPlan": {"index-*"},
    "IndexWalk": {"index-*"},
    "IndexPart": {"index-*"},
}
CLEARING = {"TransferSettle", "RemoveSettle", "DownloadSettle", "DecompressSettle", "CompressSettle", "SweepFunction"}
LISTS = ("names-000000", "entries-0-000000", "folders-000000", "packed-000000", "selection")


class Places(dict[str, str]):
    """Each resource as its own name in lower case."""

    def __missing__(self, resource: str) -> str:
        return resource.lower()


def read_patterns(name: str, action: str) -> set[str]:
    """Return the patterns of keys in staging for which a function has a right."""
    rights = read_inline(name, Places()) | read_managed(name, Places())
    return {place.removeprefix(f"{STAGING}/") for verb, place in rights if verb == action and f"{STAGING}/" in place}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_writes_only_names_that_it_makes(name: str) -> None:
    assert read_patterns(name, "s3:PutObject") == WRITTEN.get(name, set())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_only_the_end_of_a_task_and_the_sweep_remove_every_name(name: str) -> None:
    removed = read_patterns(name, "s3:DeleteObject")
    assert (EVERY_NAME in removed) is (name in CLEARING)
    if name.startswith("Index"):
        assert removed <= {"index-*"}
    elif name not in CLEARING:
        assert removed <= WRITTEN.get(name, set())


@pytest.mark.parametrize(
    "name", ["DownloadPoll", "DecompressPlan", "DecompressExtract", "UploadsFunction", "DownloadsFunction"]
)
def test_function_that_stores_foreign_bytes_cannot_write_lists(name: str) -> None:
    keys = [f"{'a' * 21}/{file}" for file in LISTS]
    assert not [
        key for action in WRITES for pattern in read_patterns(name, action) for key in keys if fnmatchcase(key, pattern)
    ]


def test_functions_of_the_index_reach_their_folders_alone() -> None:
    for name in ("IndexPlan", "IndexWalk", "IndexPart", "IndexSettle"):
        assert read_patterns(name, "s3:GetObject") <= {"index-*"}
    assert read_patterns("DavFunction", "s3:GetObject") == {"served/*"}
