"""Times as WebDAV servers write them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime

_FIXED = re.compile(r"[A-Z][a-z]{2}, (\d\d [A-Z][a-z]{2} \d{4}) ([01]\d|2[0-3]):([0-5]\d):([0-5]\d) GMT", re.ASCII)
_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_FIRST_DAY = date(1970, 1, 1).toordinal()
_MONTHS = {name: 1 + number for number, name in enumerate(_NAMES)}


def parse_date(text: str) -> float:
    """Seconds since the epoch of an HTTP date in any of its three forms, or of ISO 8601; 0.0 for anything else."""
    text = text.strip()
    match = _FIXED.fullmatch(text)
    try:
        if match is not None:
            day, hour, minute, second = match.groups()
            return max(_parse_day(day) + int(hour) * 3600.0 + int(minute) * 60 + int(second), 0.0)
        # many times slower
        found = datetime.fromisoformat(text) if text[:1].isdecimal() else parsedate_to_datetime(text)
        return max((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp(), 0.0)
    except (ValueError, KeyError, OverflowError, TypeError):
        return 0.0


def _parse_day(text: str) -> float:
    """When a day begins, as `06 Nov 1994`; ValueError or KeyError for one that there is not."""
    return (date(int(text[7:]), _MONTHS[text[3:6]], int(text[:2])).toordinal() - _FIRST_DAY) * 86400.0
