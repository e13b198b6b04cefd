"""The list of the audit, as it is requested and answered."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from mangrove.core.http import WHOLE_DAY, parse_moment
from mangrove.records import audit
from mangrove.records.audit import AuditEntry, AuditPage
from mangrove.tree.audit import AuditAction, find_oldest_action
from mangrove.web.framework import Body, Model

MAX_AUDIT_ROWS_PER_PAGE = 200
AuditText = Annotated[str, Field(max_length=256)]


class AuditReq(Body):
    username: AuditText = Field("", description="Only actions of this user; empty for all.")
    action: Annotated[AuditAction, Field(strict=False)] | Literal[""] = Field(
        "", description="Only this action; empty for all."
    )
    since: AuditText = Field(
        "", description="Earliest action: a date or time in RFC 3339 format; UTC if it has no offset."
    )
    until: AuditText = Field(
        "", description="Latest action: a date or time in RFC 3339 format; UTC if it has no offset."
    )
    start: Annotated[str, Field(pattern=r"^(\d{17}-[0-9a-f]{8})?$", max_length=32)] = Field(
        "", description="`next` of the page before; empty at first."
    )
    per_page: int = Field(50, ge=1, le=MAX_AUDIT_ROWS_PER_PAGE, description="Entries per page.")

    def find(self) -> AuditPage:
        """Return the page. Raise BadRequest if a field cannot be parsed."""
        since = max(parse_moment("since", self.since) or 0, find_oldest_action())
        until = parse_moment("until", self.until, WHOLE_DAY) or time.time() + 1
        return audit.find(self._includes, since, self.start or audit.make_audit_key(until), self.per_page)

    def _includes(self, entry: AuditEntry) -> bool:
        return self.username in ("", entry.username) and self.action in ("", entry.action)


class AuditRow(Model):
    id: str = Field(description="Id of the entry.")
    time: datetime = Field(description="Time of the action.")
    username: str = Field(description="Name of the user; empty for a sign-in under the name of no user.")
    address: str = Field(description="Address of the client.")
    action: AuditAction = Field(description="What was done.")
    target: str = Field(description="Name of the thing that was changed, or the way of a sign-in.")


class AuditRows(Model):
    content: list[AuditRow] = Field(description="Actions, the last first. A page may have none and yet a next page.")
    next: str = Field(description="`start` of the next page; empty at the end.")


def format_audit_page(page: AuditPage) -> dict[str, Any]:
    """Return a page as the data of an answer."""
    return {"content": [_format_entry(entry) for entry in page.entries], "next": page.next_key}


def _format_entry(entry: AuditEntry) -> dict[str, Any]:
    return {
        "id": entry.key,
        "time": datetime.fromtimestamp(entry.time, UTC),
        "username": entry.username,
        "address": entry.address,
        "action": entry.action,
        "target": entry.target,
    }
