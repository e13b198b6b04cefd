"""Specs and cursors: stored with a version."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from mangrove.core.problems import UnreadableTask
from mangrove.drivers.base import Entry
from mangrove.tasks.core.model import ManifestEntry, PartialFile, SourceVersion, StoredModel
from mangrove.tasks.decompress.declaration import DecompressCursor
from mangrove.tasks.download.declaration import DownloadSpec
from mangrove.tasks.remove.declaration import RemoveSpec
from mangrove.tasks.transfer.declaration import TransferCursor, TransferSpec

pytestmark = pytest.mark.usefixtures("small_parts")

MODELS: list[StoredModel] = [
    TransferSpec(source="/a/b", password="p", target_dir="/c", name="b", overwrite=True, selection="list", count=3),
    RemoveSpec(folder="/a", password="p", count=2),
    DownloadSpec(url="https://e.org/f", tool="aria2", delete_policy="delete_always", target_dir="/c"),
    TransferCursor(),
    TransferCursor(
        attempt=1, planned=True, folder_count=3, folders_walked=3, entry_count=9, position=4, round=1,
        failed_count=2, bytes_done=50, total=70, errors=["f: no"], folders_left=1,
        only_entry=ManifestEntry("f", 1, 1.5, False, "tag"),
        partial=PartialFile(path="/c/f", key="1-a", token="t", length=5, stored=SourceVersion(1, 1.5, "")),
    ),
    DecompressCursor(attempt=0, position=3, errors=["x: no"], archive=SourceVersion(100, 1.5, "tag"), chained=True),
]  # fmt: skip


@pytest.mark.parametrize("model", MODELS)
def test_model_stored_as_json_is_read_back(model: StoredModel) -> None:
    stored = orjson.loads(orjson.dumps(model.dump()))
    assert stored["version"] == 2
    assert type(model).load(stored) == model


@pytest.mark.parametrize("stored", [{"version": 1}, {"version": "2"}, {"version": 2, "position": "x"}, {"at": 1}])
def test_what_another_version_of_the_service_stored_is_refused(stored: dict[str, Any]) -> None:
    with pytest.raises(UnreadableTask, match="another version"):
        TransferCursor.load(stored)


def test_a_source_version_fits_the_same_file_only() -> None:
    file = Entry("f", 3, 1.5, False, etag="x")
    was = SourceVersion.of(file)
    assert was.matches(file)
    assert was.matches(file._replace(modified=1.0))  # servers cut the time of a single file to seconds
    assert SourceVersion(3, 1.5, "").matches(file)  # a listing may know no tag
    assert was.matches(file._replace(etag=""))
    assert not was.matches(file._replace(modified=2.5))
    assert not SourceVersion(3, 2.5, "").matches(file)
    assert SourceVersion(3, 1.5, "").matches(file._replace(etag=""))
    assert not SourceVersion(3, 2.5, "").matches(file._replace(etag=""))
    for other in (None, file._replace(size=4), file._replace(etag="y"), file._replace(is_dir=True)):
        assert not was.matches(other)
