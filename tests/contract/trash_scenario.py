"""The trash and the versions of the files bucket, as the functions of a deployment use them."""

from __future__ import annotations

import httpx

from tests.contract.scenarios import Person


def run(admin: Person) -> None:
    """List, read, restore and delete what the bucket keeps in its versions.

    It has no versions before and afterwards: moto lists the folders of removed objects then.
    """
    set_versioning(admin, "Enabled")
    for content in (b"first", b"second"):
        assert admin.puts("/files/kept.txt", content) == 200
    listed = admin.gets("files/versions", path="/files/kept.txt")
    first = next(version["id"] for version in listed["content"] if not version["is_latest"])
    answer = admin.downloads("/files/kept.txt", f"{listed['sign']}&version={first}")
    assert httpx.get(answer["headers"]["location"], timeout=60).content == b"first"
    admin.gets("files/versions_restore", path="/files/kept.txt", id=first)
    for content in (b"", b"taken"):
        admin.gets("files/remove", dir="/files", names=["kept.txt"])
        if content:
            assert admin.puts("/files/kept.txt", content) == 200
        restored = admin.gets("files/trash_restore", dir="/files", names=["kept.txt"])
        assert len(restored["done"]) == 1 and restored["task"] is None
    admin.gets("files/remove", dir="/files", names=["kept.txt", "kept (2).txt"])
    assert admin.gets("files/trash_empty")["failed"] == 0
    set_versioning(admin, "Suspended")


def set_versioning(admin: Person, status: str) -> None:
    admin.cloud.client("s3").put_bucket_versioning(
        Bucket=admin.cloud.refs["Files"], VersioningConfiguration={"Status": status}
    )
