"""The name of a file as its server gives it, made fit to be a name here."""

from __future__ import annotations

import re
import secrets
import time
import unicodedata
from urllib.parse import unquote

import httpx

from mangrove.paths import LONGEST_NAME

_PARAMETER = re.compile(r';\s*(filename\*?)\s*=\s*("(?:[^"\\]|\\.)*"|[^;\s]+)', re.IGNORECASE)
_JOINERS = "\u200c\u200d"  # part of the spelling in some scripts
_ENDING = 20  # letters after the last dot, at most, that stay when a name is cut


def given(disposition: str) -> str:
    """The file name in a Content-Disposition (RFC 6266, its extended form first); "" for none."""
    found = {name.lower(): text for name, text in reversed(_PARAMETER.findall(f";{disposition}"))}
    return _extended(found.get("filename*", "")) or _quoted(found.get("filename", ""))


def _extended(text: str) -> str:
    """`UTF-8''%e2%82%ac` (RFC 8187); "" when it is not of that kind."""
    charset, _, rest = text.strip('"').partition("'")
    _, quote, letters = rest.partition("'")
    if not quote:
        return ""
    try:
        return unquote(letters, encoding=charset or "utf-8", errors="strict")
    except (LookupError, UnicodeDecodeError):
        return ""


def _quoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text.removeprefix('"').removesuffix('"')) if text.startswith('"') else text


def clean(raw: str) -> str:
    """The last part of `raw` as a name of at most LONGEST_NAME bytes; "" when nothing of it can be one.

    Without what would hide it, turn its letters around or end it elsewhere: control and direction marks, dots and
    blanks at either end.
    """
    last = re.split(r"[/\\]", raw)[-1].encode(errors="ignore").decode()
    shown = "".join(letter for letter in last if letter in _JOINERS or unicodedata.category(letter)[0] != "C")
    return _cut(shown.strip(". "))


def _cut(name: str) -> str:
    if len(name.encode()) <= LONGEST_NAME:
        return name
    stem, dot, ending = name.rpartition(".")
    if not stem or len(ending) > _ENDING:
        stem, dot, ending = name, "", ""
    room = LONGEST_NAME - len((dot + ending).encode())
    return stem.encode()[:room].decode(errors="ignore").rstrip(". ") + dot + ending


def of(url: httpx.URL, disposition: str) -> str:
    """One clean name: from Content-Disposition, else the last part of the path, else `<host>-<ms>-<hex>`."""
    path = url.raw_path.partition(b"?")[0].decode("ascii", "replace")
    made = f"{url.host.replace(':', '-')}-{int(time.time() * 1000)}-{secrets.token_hex(4)}"
    return clean(given(disposition)) or clean(unquote(path)) or clean(made)
