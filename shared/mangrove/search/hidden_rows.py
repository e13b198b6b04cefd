"""The rows that a caller may not see, as conditions of statements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from mangrove.search.hits import HidableRows
from mangrove.search.names import MARK
from mangrove.search.words import SqlCondition, join_conditions

_ASKS_TABLES = re.compile(r"\\[pP]|\(\?[a-zA-Z]*i")


@dataclass(slots=True)
class HiddenRows:
    """The rows of a part that the caller may not see: folders by their numbers, and names in others."""

    limit: int = 0  # numbers below it are stored as bits
    bits: bytearray = field(default_factory=bytearray)  # the highest bit of a byte first
    folders: list[int] = field(default_factory=list)
    rows: list[tuple[int, str]] = field(default_factory=list)

    def hide_folder(self, number: int) -> None:
        """Hide the folder with that number."""
        if number >= self.limit:
            self.folders.append(number)
            return
        missing = (number >> 3) + 1 - len(self.bits)
        if missing > 0:
            self.bits.extend(bytes(missing))
        self.bits[number >> 3] |= 128 >> (number & 7)

    @property
    def condition(self) -> SqlCondition:
        """Return the remaining rows, with the columns `folder` and `name`."""
        return join_conditions(self._make_parts())

    def _make_parts(self) -> Iterator[SqlCondition]:
        if self.bits:
            shown = "CASE WHEN folder < ? THEN get_bit(?::BLOB::BIT, folder::INTEGER) = 0 ELSE TRUE END"
            yield SqlCondition(shown, (len(self.bits) * 8, bytes(self.bits)))
        if self.folders:
            yield SqlCondition("folder NOT IN (SELECT unnest(?::UINTEGER[]))", (self.folders,))
        if self.rows:
            hidden = "SELECT unnest(?::UINTEGER[]), unnest(?::VARCHAR[])"
            values = [row[0] for row in self.rows], [row[1] for row in self.rows]
            yield SqlCondition(f"(folder, name) NOT IN ({hidden})", values)


def find_hidable(hidable: HidableRows) -> SqlCondition:
    """Return the condition for hits that may be hidden.

    The database and Python both use RE2, but its tables of scripts and letter cases differ between versions. If a
    pattern uses them, every name that is not ASCII is tested, and every name that is stored in another form.
    """
    parts = [SqlCondition("regexp_matches(name, ?)", (pattern,)) for pattern in hidable.patterns]
    parts.append(SqlCondition("contains(name, ?)", (MARK,)))
    if any(_ASKS_TABLES.search(pattern) for pattern in hidable.patterns):
        parts.append(SqlCondition("strlen(name) <> length(name)"))
    if hidable.folders:
        parts.append(SqlCondition("is_dir"))
    return SqlCondition(
        f"({' OR '.join(part.text for part in parts)})", tuple(value for part in parts for value in part.parameters)
    )
