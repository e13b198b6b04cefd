"""The records of the audit: their order, their pages, their bounds and their end."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from mangrove.records import audit
from mangrove.records.audit import AuditEntry, AuditPage, AuditRecord, make_audit_key
from mangrove.records.store.base import delete_expired

pytestmark = pytest.mark.usefixtures("records")
DAY_SECONDS = 24 * 3600


def add_at(seconds: float, target: str, expires: float | None = None) -> None:
    moment = datetime.fromtimestamp(seconds, UTC)
    expiry = datetime.fromtimestamp(expires, UTC) if expires else moment + timedelta(days=audit.MAX_AUDIT_DAYS)
    AuditRecord(
        f"{moment:%Y-%m}", f"{make_audit_key(seconds)}-00000000", username="ann", address="192.0.2.1",
        action="sign_in", target=target, expires=expiry,
    ).save()  # fmt: skip


def find(since: float = 0, before: str = "", limit: int = 10, target: str = "") -> AuditPage:
    return audit.find(
        lambda entry: target in ("", entry.target), since, before or make_audit_key(time.time() + 1), limit
    )


def list_targets(page: AuditPage) -> list[str]:
    return [entry.target for entry in page.entries]


def test_added_action_is_found_with_its_time() -> None:
    began = time.time()
    audit.add(AuditEntry("ann", "192.0.2.1", "sign_in", "login"), days=1)
    (entry,) = find().entries
    assert (entry.username, entry.address, entry.action, entry.target) == ("ann", "192.0.2.1", "sign_in", "login")
    assert began - 0.001 <= entry.time <= time.time()


def test_actions_of_several_months_are_listed_from_the_last() -> None:
    now = time.time()
    for age in (1, 40, 100, 399):
        add_at(now - age * DAY_SECONDS, str(age))
    assert list_targets(find()) == ["1", "40", "100", "399"]
    assert list_targets(find(since=now - 101 * DAY_SECONDS)) == ["1", "40", "100"]
    assert list_targets(find(before=make_audit_key(now - 50 * DAY_SECONDS))) == ["100", "399"]


def test_pages_continue_where_the_page_before_ends() -> None:
    now = time.time()
    for age in range(5):
        add_at(now - age * 20 * DAY_SECONDS, str(age))
    first = find(limit=2)
    second = find(limit=2, before=first.next_key)
    third = find(limit=2, before=second.next_key)
    assert [list_targets(page) for page in (first, second, third)] == [["0", "1"], ["2", "3"], ["4"]]
    assert third.next_key == ""


def test_page_reads_no_more_than_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MAX_AUDIT_ROWS_READ", 3)
    now = time.time()
    for age in range(4):
        add_at(now - age, str(age))
    first = find(target="3")
    assert first.entries == []
    assert list_targets(find(target="3", before=first.next_key)) == ["3"]


def test_expired_action_is_not_listed_and_is_swept() -> None:
    now = time.time()
    add_at(now - 10, "old", expires=now - 1)
    add_at(now - 5, "new")
    assert list_targets(find()) == ["new"]
    delete_expired(audit.AuditRecord)
    assert [record.target for record in AuditRecord.scan()] == ["new"]


def test_actions_of_a_longer_time_are_deleted_and_expired_ones_are_left() -> None:
    now = time.time()
    for age in (1, 29, 31, 75, 380):
        add_at(now - age * DAY_SECONDS, str(age))
    add_at(now - 50 * DAY_SECONDS, "expired", expires=now - 1)
    audit.delete_before(now - 30 * DAY_SECONDS)
    assert {record.target for record in AuditRecord.scan()} == {"1", "29", "expired"}
