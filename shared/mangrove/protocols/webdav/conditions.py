"""The header If (RFC 4918, 10.4): under which tokens and validators a request is to be done."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mangrove.core.problems import BadRequest

MAX_IF_CHARACTERS = 16_384
MAX_CONDITIONS_PER_IF = 256
UNREADABLE = "the header If cannot be read"
_TOKEN = re.compile(
    r"\s*(?:(?P<not>Not)(?=[\s<\[])|<(?P<uri>[^<>\s]+)>|\[(?P<etag>(?:W/)?\"[^\"]*\")\]|(?P<mark>[()]))", re.I
)


@dataclass(frozen=True, slots=True)
class Condition:
    """A state token, or (`is_etag`) a validator with its quotes, that is to hold, or `is_negated` not to."""

    value: str
    is_etag: bool = False
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class ConditionList:
    """All of them hold for a resource: the one of the request, or (`resource`) another one by its address."""

    resource: str
    conditions: Sequence[Condition]


def parse_if(text: str) -> list[ConditionList]:
    """The lists of the header, one of which has to hold; none for an empty one. BadRequest."""
    if len(text) > MAX_IF_CHARACTERS:
        raise BadRequest("the header If is too long")
    reader = _Reader()
    for kind, value in _split(text):
        reader.read(kind, value)
    return reader.finish()


class _Reader:
    """Takes the header part by part."""

    def __init__(self) -> None:
        self._lists: list[ConditionList] = []
        self._resource = ""
        self._open: list[Condition] | None = None  # the list that has begun and not ended
        self._is_negated = False
        self._count = 0

    def read(self, kind: str, value: str) -> None:
        """The next part; BadRequest for one that cannot stand there."""
        if self._open is None:
            self._read_outside(kind, value)
        elif kind == "not" and not self._is_negated:
            self._is_negated = True
        elif kind in ("uri", "etag"):
            self._open.append(Condition(value, kind == "etag", self._is_negated))
            self._is_negated, self._count = False, self._count + 1
        elif value == ")" and self._open and not self._is_negated:
            self._lists.append(ConditionList(self._resource, tuple(self._open)))
            self._open = None
        else:
            raise BadRequest(UNREADABLE)

    def _read_outside(self, kind: str, value: str) -> None:
        if value == "(":
            self._open = []
        elif kind == "uri" and (not self._lists or self._resource):  # all lists have a resource, or none
            self._resource = value
        else:
            raise BadRequest(UNREADABLE)

    def finish(self) -> list[ConditionList]:
        """All lists, once nothing more comes."""
        if self._open is not None or self._count > MAX_CONDITIONS_PER_IF or (self._resource and not self._lists):
            raise BadRequest(UNREADABLE)
        return self._lists


def _split(text: str) -> Iterator[tuple[str, str]]:
    position, end = 0, len(text.rstrip())
    while position < end:
        found = _TOKEN.match(text, position)
        if found is None:
            raise BadRequest(UNREADABLE)
        position = found.end()
        assert found.lastgroup is not None
        yield found.lastgroup, found[found.lastgroup]


def find_tokens(lists: Sequence[ConditionList]) -> frozenset[str]:
    """The tokens that the client has shown to know."""
    return frozenset(one.value for part in lists for one in part.conditions if not one.is_etag)
