"""Names, states and records of tasks as clients read them."""

from __future__ import annotations

import re

import pytest

from mangrove.core.paths import TreePath
from mangrove.tasks.core import queue
from mangrove.tasks.core.model import format_transfer_name, format_upload_name

P = TreePath
UPLOAD = re.compile(r"^upload (.+) to \[(/.*)\]\((/.*)\)$")
TRANSFER = re.compile(r"^(copy|merge|move) \[(/.*)\]\((/.*)\) to \[(/.*)\]\((/.*)\)$")


def test_an_upload_is_named_by_its_file_mount_and_folder() -> None:
    assert format_upload_name("a b.txt", P("/files"), P("/x/y")) == "upload a b.txt to [/files](/x/y)"
    assert format_upload_name("f", P("/files"), P("/")) == "upload f to [/files](/)"
    assert format_upload_name("f", P("/"), P("/")) == "upload f to [/](/)"
    match = UPLOAD.fullmatch(format_upload_name("a [b](c)", P("/m/n"), P("/d")))
    assert match
    assert match.groups() == ("a [b](c)", "/m/n", "/d")


@pytest.mark.parametrize("verb", ["copy", "merge", "move"])
def test_a_transfer_is_named_by_both_its_ends(verb: str) -> None:
    name = format_transfer_name(verb, P("/a"), P("/x/f.txt"), P("/b/c"), P("/"))
    assert name == f"{verb} [/a](/x/f.txt) to [/b/c](/)"
    match = TRANSFER.fullmatch(name)
    assert match
    assert match.groups() == (verb, "/a", "/x/f.txt", "/b/c", "/")


def test_ids_are_nanoids_of_21_letters() -> None:
    ids = {queue.make_id() for _ in range(500)}
    assert len(ids) == 500
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{21}", id) for id in ids)
