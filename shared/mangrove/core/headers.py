"""Values of HTTP headers that several rooms write."""

from __future__ import annotations

import mimetypes
import time
from urllib.parse import quote

LATEST = 253_402_300_799.0  # the end of the year 9999, in seconds since the epoch
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
MOST_KNOWN = 256  # endings of names whose types are remembered
EXTRA_TYPES = {"apk": "application/vnd.android.package-archive"}


def format_content_disposition(name: str) -> str:
    """A Content-Disposition with which a browser saves the file, as `name` unless that is empty.

    The name is percent-encoded in both forms, so that no character of it can end the header.
    """
    if not name:
        return "attachment"
    encoded = quote(name, safe="")
    return f"attachment; filename=\"{encoded}\"; filename*=utf-8''{encoded}"


def format_http_date(seconds: float) -> str:
    """An HTTP date, of the years 1970 to 9999."""
    year, month, day, hour, minute, second, weekday, *_ = time.gmtime(min(max(seconds, 0.0), LATEST))
    return f"{DAYS[weekday]}, {day:02} {MONTHS[month - 1]} {year} {hour:02}:{minute:02}:{second:02} GMT"


def make_retry_after(seconds: int) -> dict[str, str]:
    """The header that says after how many seconds to try again; none for 0."""
    return {"retry-after": str(seconds)} if seconds else {}


def guess_mime(name: str) -> str:
    """The type a name suggests, text with its charset."""
    extension = name.rpartition(".")[2].lower()
    path = f"./{name.rpartition('/')[2]}"  # what is taken for a URL otherwise, and may be none
    kind = EXTRA_TYPES.get(extension) or mimetypes.guess_type(path, strict=False)[0] or "application/octet-stream"
    return f"{kind}; charset=utf-8" if kind.startswith("text/") else kind


class MimeGuesser:
    """Guesses the types of many names: once for each ending."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def guess(self, name: str) -> str:
        """What `guess_mime` says."""
        stem, _, ending = name.rpartition(".")
        found = self._known.get(ending)
        if found is not None and stem:
            return found
        found = guess_mime(name)
        if stem and f".{ending.lower()}" not in mimetypes.encodings_map:  # else what stands before it counts, too
            if len(self._known) == MOST_KNOWN:
                self._known.clear()
            self._known[ending] = found
        return found
