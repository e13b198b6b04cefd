"""Dates and times of requests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from mangrove.core.problems import BadRequest

WHOLE_DAY = timedelta(days=1, microseconds=-1)


def parse_moment(name: str, text: str, day: timedelta = timedelta()) -> float | None:
    """Return seconds since the epoch, None for an empty text; for a date, the moment `day` after its start.

    Raise BadRequest if the text is neither a date nor a time.
    """
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return (moment + day if len(text) <= len("2024-01-31") else moment).timestamp()
    except (ValueError, OverflowError):
        raise BadRequest(f"{name}: not a time as in RFC 3339: {text[:40]}") from None
