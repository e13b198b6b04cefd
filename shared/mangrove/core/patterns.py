"""Patterns that users give, in RE2: matching takes time in proportion to the text, whatever the pattern."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import re2

from mangrove.core.paths import MAX_NAME_BYTES
from mangrove.core.problems import BadRequest

SMALL_MEMORY = 1 << 18  # bytes of a pattern that anybody may give: made, and searched for in a name, within some 25 ms


class InvalidPattern(ValueError):
    """Text that is no RE2 pattern; its message is RE2's own."""


def compile_pattern(pattern: str, memory: int | None = None) -> Any:
    """The compiled pattern, of as many bytes as RE2 allows, or `memory`; InvalidPattern."""
    options = re2.Options()
    options.max_mem = memory or options.max_mem
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        text = error.args[0] if error.args else error
        raise InvalidPattern(text.decode(errors="replace") if isinstance(text, bytes) else str(text)) from None


_variable = re.compile(r"\$(?:\$|\{(\w+)\}|(\w+))")


class Replacement:
    """A pattern, and a template of Go's kind (`$1`, `${name}`, `$$`) for the name that comes of each match."""

    def __init__(self, pattern: str, template: str) -> None:
        self._pattern = compile_pattern(pattern, SMALL_MEMORY)
        self._parts = list(_parse_template(self._pattern, template))

    def apply(self, name: str) -> str | None:
        """All matches in `name` replaced as Go's ReplaceAllString does; None when there is none.

        BadRequest as soon as the new name has more than MAX_NAME_BYTES bytes.
        """
        if not self._pattern.search(name):
            return None
        room = MAX_NAME_BYTES

        def expand(match: Any) -> str:
            nonlocal room
            found = []
            for part in self._parts:
                text = part if isinstance(part, str) else match.group(part) or ""
                room -= len(text.encode())
                if room < 0:
                    raise BadRequest("name is too long")
                found.append(text)
            return "".join(found)

        return str(self._pattern.sub(expand, name))


def _parse_template(pattern: Any, template: str) -> Iterator[str | int]:
    """Texts, and numbers of groups; an unknown group is left out."""
    end = 0
    for variable in _variable.finditer(template):
        yield template[end : variable.start()]
        end = variable.end()
        key = variable.group(1) or variable.group(2)
        if key is None:
            yield "$"
        elif key.isdecimal() and int(key) <= pattern.groups:
            yield int(key)
        elif key in pattern.groupindex:
            yield pattern.groupindex[key]
    yield template[end:]
