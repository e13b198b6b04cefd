"""The rules for user names. For names that look alike see `records.lookalikes`."""

from __future__ import annotations

import unicodedata

from mangrove.core.problems import BadRequest

MAX_NAME_LENGTH = 255  # characters
SCRIPTS = frozenset(
    [
        "ARABIC",
        "ARMENIAN",
        "BENGALI",
        "BOPOMOFO",
        "CJK",
        "CYRILLIC",
        "DEVANAGARI",
        "ETHIOPIC",
        "GEORGIAN",
        "GREEK",
        "GUJARATI",
        "GURMUKHI",
        "HANGUL",
        "HEBREW",
        "HIRAGANA",
        "KANNADA",
        "KATAKANA",
        "KHMER",
        "LAO",
        "LATIN",
        "MALAYALAM",
        "MYANMAR",
        "ORIYA",
        "SINHALA",
        "TAMIL",
        "TELUGU",
        "THAANA",
        "THAI",
        "TIBETAN",
    ]
)  # recommended by UAX 31; the Unicode names of letters begin with these words
WRITTEN_TOGETHER = (
    frozenset({"LATIN", "CJK", "HIRAGANA", "KATAKANA"}),
    frozenset({"LATIN", "CJK", "HANGUL"}),
    frozenset({"LATIN", "CJK", "BOPOMOFO"}),
)
_FILLERS = frozenset("\u115f\u1160\u2800\u3164\uffa0\u034f")  # invisible letters and marks
_VARIATIONS = "VARIATION SELECTOR"  # in the names of invisible marks


def check(name: str) -> None:
    """Raise BadRequest unless all characters of a name are visible and of one script."""
    check_length(name)
    if name != name.strip() or not name.isprintable() or any(map(_is_invisible, name)):
        raise BadRequest("username begins or ends with a blank, or has characters that cannot be seen")
    scripts = {script for letter in unicodedata.normalize("NFKD", name) if (script := _find_script(letter))}
    if not scripts <= SCRIPTS:
        raise BadRequest("username has letters of a script that is in no everyday use")
    if len(scripts) > 1 and not any(scripts <= together for together in WRITTEN_TOGETHER):
        raise BadRequest("username mixes scripts")


def check_length(name: str) -> None:
    """Raise BadRequest for a name that is too long or has control characters."""
    if len(name) > MAX_NAME_LENGTH or any(ord(letter) < 32 for letter in name):
        raise BadRequest("username is too long or has control characters")


def _is_invisible(letter: str) -> bool:
    return letter in _FILLERS or unicodedata.name(letter, "").startswith(_VARIATIONS)


def _find_script(letter: str) -> str:
    """Return the script of a letter or digit by its Unicode name, "" for characters of all scripts."""
    if letter.isascii():
        return "LATIN" if letter.isalpha() else ""
    if unicodedata.category(letter)[0] not in "LN":
        return ""
    words = unicodedata.name(letter, "").replace("-", " ").replace("IDEOGRAPHIC", "CJK").split()
    return next((word for word in words[:2] if word in SCRIPTS), words[0] if words else "UNKNOWN")
