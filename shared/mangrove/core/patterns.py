"""Patterns of users, in RE2: the time of a match is proportional to the length of the text, for any pattern."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from mangrove.core.paths import MAX_NAME_BYTES
from mangrove.core.problems import BadRequest

MAX_PATTERN_MEMORY = 1 << 18  # bytes, for a pattern of any user: compiled and matched with a name in about 25 ms


class InvalidPattern(ValueError):
    """The text is not an RE2 pattern. The message is that of RE2."""


def compile_pattern(pattern: str, memory: int | None = None) -> Any:
    """Return the compiled pattern, with the memory limit of RE2 or `memory`. Raise InvalidPattern."""
    import re2  # takes milliseconds, and most starts compile no pattern

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
    """A pattern and a template in the syntax of Go (`$1`, `${name}`, `$$`) for each match."""

    def __init__(self, pattern: str, template: str) -> None:
        self._pattern = compile_pattern(pattern, MAX_PATTERN_MEMORY)
        self._parts = list(_parse_template(self._pattern, template))

    def apply(self, name: str) -> str | None:
        """Return the name with all matches replaced as Go's ReplaceAllString does, None without a match.

        Raise BadRequest as soon as the new name has more than MAX_NAME_BYTES bytes.
        """
        if not self._pattern.search(name):
            return None
        room = MAX_NAME_BYTES

        def expand(match: Any) -> str:
            nonlocal room
            parts = []
            for part in self._parts:
                text = part if isinstance(part, str) else match.group(part) or ""
                room -= len(text.encode())
                if room < 0:
                    raise BadRequest("name is too long")
                parts.append(text)
            return "".join(parts)

        return str(self._pattern.sub(expand, name))


def _parse_template(pattern: Any, template: str) -> Iterator[str | int]:
    """Yield texts and numbers of groups; leave out unknown groups."""
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
