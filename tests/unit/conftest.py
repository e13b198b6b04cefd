"""Fixtures of the unit tests."""

from __future__ import annotations

import pytest

from mangrove.core import deadlines
from mangrove.records import index_changes
from mangrove.search import find, query
from mangrove.search.database import Database
from mangrove.tree import lock_leases, mounts
from mangrove.tree.operations import change_log, effects, uploads

PATIENCE_SECONDS = 60.0
MOMENTS = (
    (change_log, "END_SECONDS"),
    (deadlines, "PACE_SAMPLE_SECONDS"),
    (effects, "MAX_LISTING_SECONDS"),
    (find, "START_SECONDS"),
    (index_changes, "MAX_WRITE_DELAY_SECONDS"),
    (lock_leases, "LEASE_SECONDS"),
    (mounts, "SPACE_SECONDS"),
    (uploads, "RIGHTS_FRESH_SECONDS"),
)
"""The times of few seconds after which the service does without a result, or stops its work."""


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait a minute for what has a moment in the service: a loaded computer may stand still for longer than that.

    A test of such a time sets it itself.
    """
    for module, name in MOMENTS:
        monkeypatch.setattr(module, name, PATIENCE_SECONDS)
    for function in (Database.run, Database.accepts, Database.change, query.run):
        monkeypatch.setitem(function.__kwdefaults__, "seconds", PATIENCE_SECONDS)
