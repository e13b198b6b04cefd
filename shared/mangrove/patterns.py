"""Patterns that users give, in RE2: matching takes time in proportion to the text, whatever the pattern."""

from __future__ import annotations

from typing import Any

import re2


class InvalidPattern(ValueError):
    """Text that is no RE2 pattern; its message is RE2's own."""


def compile_pattern(pattern: str) -> Any:
    """The compiled pattern; InvalidPattern."""
    try:
        return re2.compile(pattern)
    except re2.error as error:
        text = error.args[0] if error.args else error
        raise InvalidPattern(text.decode(errors="replace") if isinstance(text, bytes) else str(text)) from None
