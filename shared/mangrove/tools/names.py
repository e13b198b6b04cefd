"""The name of a file as its server states it, converted to a valid one."""

from __future__ import annotations

import re
import secrets
import time
import unicodedata
from typing import TYPE_CHECKING
from urllib.parse import unquote

from mangrove.core.paths import MAX_NAME_BYTES

if TYPE_CHECKING:
    import httpx

_PARAMETER = re.compile(r';\s*(filename\*?)\s*=\s*("(?:[^"\\]|\\.)*"|[^;\s]+)', re.IGNORECASE)
_JOINERS = "\u200c\u200d"  # part of the spelling in some scripts
_MAX_EXTENSION = 20  # characters after the last dot that are kept when a name is truncated


def parse_content_disposition(header: str) -> str:
    """Return the file name in a Content-Disposition (RFC 6266, its extended form first); "" without one."""
    parameters = {name.lower(): value for name, value in reversed(_PARAMETER.findall(f";{header}"))}
    return _decode_extended(parameters.get("filename*", "")) or _unquote(parameters.get("filename", ""))


def _decode_extended(value: str) -> str:
    """Decode `UTF-8''%e2%82%ac` (RFC 8187); "" for another form."""
    charset, _, rest = value.strip('"').partition("'")
    _, quote, encoded = rest.partition("'")
    if not quote:
        return ""
    try:
        return unquote(encoded, encoding=charset or "utf-8", errors="strict")
    except (LookupError, UnicodeDecodeError):
        return ""


def _unquote(value: str) -> str:
    if not value.startswith('"'):
        return value
    return re.sub(r"\\(.)", r"\1", value.removeprefix('"').removesuffix('"'))


def sanitize_name(raw: str) -> str:
    """Return the last part of `raw` as a name of at most MAX_NAME_BYTES bytes; "" if nothing of it is valid.

    Control and direction marks, and dots and blanks at either end, are removed.
    """
    last = re.split(r"[/\\]", raw)[-1].encode(errors="ignore").decode()
    visible = "".join(letter for letter in last if letter in _JOINERS or unicodedata.category(letter)[0] != "C")
    return _truncate(visible.strip(". "))


def _truncate(name: str) -> str:
    if len(name.encode()) <= MAX_NAME_BYTES:
        return name
    stem, dot, extension = name.rpartition(".")
    if not stem or len(extension) > _MAX_EXTENSION:
        stem, dot, extension = name, "", ""
    max_stem = MAX_NAME_BYTES - len((dot + extension).encode())
    return stem.encode()[:max_stem].decode(errors="ignore").rstrip(". ") + dot + extension


def make_file_name(url: httpx.URL, disposition: str) -> str:
    """Return a valid name: from Content-Disposition, otherwise the last part of the path, otherwise
    `<host>-<ms>-<hex>`.
    """
    path = url.raw_path.partition(b"?")[0].decode("ascii", "replace")
    generated = f"{url.host.replace(':', '-')}-{int(time.time() * 1000)}-{secrets.token_hex(4)}"
    return (
        sanitize_name(parse_content_disposition(disposition))
        or sanitize_name(unquote(path))
        or sanitize_name(generated)
    )
