"""Listings: page by page, with the chosen call, of servers that answer oddly."""

from __future__ import annotations

import time

import pytest

from mangrove.core.problems import NotSupported, StorageForbidden, StorageProblem, Unreachable
from mangrove.drivers import base
from mangrove.drivers.s3.driver import S3
from tests.unit.drivers.s3.bucket import Bucket, P, odd_server, run_on_driver


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_listing_comes_in_pages_without_what_is_no_entry(bucket: Bucket, version: str) -> None:
    visible = [f"ä file {number:04}+%&.txt" for number in range(2500)]
    hidden = ["", ".mangrove", "back\\slash", "line\nfeed", ".", ".."]
    bucket.put(*(f"in/d/{name}" for name in [*visible, *hidden]))

    async def work(driver: S3) -> list[list[base.Entry]]:
        return [list(batch) async for batch in driver.list(P("/d"))]

    options = bucket.options(root_folder_path="/in", list_object_version=version)
    batches = run_on_driver(options, work)
    entries = [entry for batch in batches for entry in batch]
    assert len(batches) == 3
    assert sorted(entry.name for entry in entries) == visible
    assert abs(entries[0].modified - time.time()) < 600


# moto's v1 says that it encodes and does not encode common prefixes
@pytest.mark.parametrize(("version", "name"), [("v1", "ä folder"), ("v2", "ä folder +%&")])
def test_a_folder_is_as_old_as_its_storage(bucket: Bucket, version: str, name: str) -> None:
    bucket.put(f"d/{name}/deep/f", "d/f")
    options = bucket.options(list_object_version=version)
    entries = run_on_driver(options, lambda driver: base.list_all(driver, P("/d")), modified=1234.0)
    folders = [entry for entry in entries if entry.is_dir]
    assert folders == [base.Entry(name, 0, 1234.0, True)]
    assert run_on_driver(options, lambda driver: driver.stat(P(f"/d/{name}")), modified=1234.0) == folders[0]


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_only_the_chosen_list_call_is_used(bucket: Bucket, version: str) -> None:
    bucket.put("d/f")
    seen: set[str] = set()

    async def work(driver: S3) -> None:
        driver.client.meta.events.register("before-call.s3", lambda model, **_: seen.add(model.name))
        await driver.stat(P("/d"))
        await driver.rename(P("/d"), P("/e"))
        await driver.remove(P("/e"))

    run_on_driver(bucket.options(list_object_version=version), work)
    assert {name for name in seen if name.startswith("List")} == {"ListObjectsV2" if version == "v2" else "ListObjects"}


PAGE = (
    b"<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>a</Key><Size>1</Size>"
    b"<LastModified>2026-01-01T00:00:00Z</LastModified></Contents></ListBucketResult>"
)


@pytest.mark.parametrize(
    ("status", "content", "kind"),
    [
        (200, PAGE, Unreachable),  # always the same page
        (200, PAGE.replace(b"<Size>1</Size>", b""), StorageProblem),
        (200, b"<html>not closed", Unreachable),
        (403, b"<Error><Code>SignatureDoesNotMatch</Code><Message>AKIDTEST</Message></Error>", StorageForbidden),
        (501, b"<Error><Code>NotImplemented</Code></Error>", NotSupported),
        (503, b"<Error><Code>SlowDown</Code></Error>", Unreachable),
    ],
)
def test_odd_answers_to_a_listing_end_it(status: int, content: bytes, kind: type[StorageProblem]) -> None:
    with odd_server(status, content) as options:
        with pytest.raises(kind) as caught:
            run_on_driver(options, lambda driver: base.list_all(driver, P("/")))
    assert "TEST" not in caught.value.message
