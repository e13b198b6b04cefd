"""RE2 patterns made of text that users wrote: linear in time, whatever the pattern."""

from __future__ import annotations

from typing import Any

import re2


class InvalidPattern(ValueError):
    """A text that is no RE2 pattern; its own text is the reason RE2 gives."""


def compile_pattern(pattern: str) -> Any:
    """The compiled pattern; InvalidPattern when it is none."""
    try:
        return re2.compile(pattern)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise InvalidPattern(text) from None
