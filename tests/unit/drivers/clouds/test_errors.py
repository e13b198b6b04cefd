"""Errors as opendal 0.47 writes them."""

from __future__ import annotations

import pytest
from opendal import exceptions

from mangrove.core.problems import (
    EntryChanged,
    EntryExists,
    EntryNotFound,
    NotAFile,
    NotSupported,
    StorageForbidden,
    StorageProblem,
    Unreachable,
)
from mangrove.drivers.clouds.errors import ERRORS, make_problem, translate_errors

ANSWER = (
    "Unexpected (permanent) at stat => no\n\nContext:\n   uri: http://a/b?sig=hush\n   "
    "response: Parts { status: STATUS, version: HTTP/1.1 }"
)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("NotFound (permanent) at stat => x", EntryNotFound), ("PermissionDenied (permanent) at read => x",
        StorageForbidden),
        ("ConditionNotMatch (permanent) at write => x", EntryChanged), ("AlreadyExists (permanent) at x => y",
        EntryExists),
        ("IsADirectory (permanent) at x => y", NotAFile), ("Unsupported (permanent) at x => y", NotSupported),
        ("RateLimited (temporary) at x => y", Unreachable), ("Unexpected (persistent) at x => y", Unreachable),
        ("something else", Unreachable), (ANSWER.replace("STATUS", "503"), Unreachable),
        (ANSWER.replace("STATUS", "429"), Unreachable), (ANSWER.replace("STATUS", "401"), StorageForbidden),
        (ANSWER.replace("STATUS", "416"), EntryChanged), (ANSWER.replace("STATUS", "501"), NotSupported),
        (ANSWER.replace("STATUS", "400"), StorageProblem),
    ],
)  # fmt: skip
def test_each_error_has_its_meaning_and_no_secret(text: str, kind: type[StorageProblem]) -> None:
    for error in (exceptions.Unexpected(text), OSError(text)):
        with pytest.raises(StorageProblem) as caught, translate_errors():
            raise error
        assert type(caught.value) is kind
        assert "hush" not in str(caught.value)
        assert caught.value.__cause__ is None


def test_no_error_of_opendal_is_left_out() -> None:
    kinds = {kind for kind in vars(exceptions).values() if isinstance(kind, type) and issubclass(kind, Exception)}
    assert kinds == set(ERRORS)


def test_what_is_late_does_not_answer() -> None:
    with pytest.raises(Unreachable, match="in time"), translate_errors():
        raise TimeoutError


def test_an_answer_that_means_nothing_is_told_by_its_status() -> None:
    assert str(make_problem(ANSWER.replace("STATUS", "418"))) == "the service answers 418"
