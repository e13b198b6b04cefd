"""The messages of problems in the protocols, which have no clients that expect the words of the compatible API."""

from __future__ import annotations

from mangrove.core.problems import NotSupported
from mangrove.protocols.sftp.handles import explain
from mangrove.protocols.webdav.errors import render_problem

PLAIN = "the storage cannot do this"


def test_operation_that_a_storage_lacks_has_a_plain_message() -> None:
    assert NotSupported().message == "not implement"
    assert explain(NotSupported()).reason == PLAIN
    assert f"<m:message>{PLAIN}</m:message>".encode() in render_problem(NotSupported())


def test_own_message_of_a_problem_is_kept() -> None:
    assert explain(NotSupported("only a task can do this")).reason == "only a task can do this"
