"""Keywords as conditions on folded names.

All words must occur in a name, in any order and at any position. Case and equal spellings in Unicode do not matter.
`"quoted text"` is one word, with its spaces, `*` and `?`. A quotation mark without a partner, or inside a word, is an
ordinary character. A word with `*` (any text, or none) or `?` (one character) outside quotation marks is a pattern
for the whole name, as in `locate`, `find -name` and shells: `*.jpg` is the end of a name, `img_*` its beginning,
`*2024*` the same as `2024`. Full-width `＊` and `？`, which Chinese names have, are ordinary characters.

A name is ranked: it is equal to the keywords (WHOLE), begins with them (PREFIX), all words are at the beginning of
words of the name (WORD_START), or not all are (REST). Patterns do not count; without another word all names rank the
same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from unicodedata import normalize

from mangrove.core.patterns import MAX_PATTERN_MEMORY, compile_pattern
from mangrove.core.problems import BadRequest
from mangrove.search.names import make_legible

MAX_KEYWORDS_LENGTH = 1000  # characters
MAX_WORDS = 32
MAX_WILDCARDS = 32  # in all words; `**` counts as one
MAX_EXTENSIONS = 32
MAX_EXTENSION_LENGTH = 64  # characters

WHOLE, PREFIX, WORD_START, REST = range(4)
_BETWEEN_WORDS = r"[\x00-/:-@\[-`{-\x7f\xb7–—‘’“”…、。〈-】]"  # characters in front of a word, in RE2 and Python

_TYPED = re.compile(r'"([^"]*)"|(\S+)')
_WILDCARDS = re.compile(r"\*+|\?")


def fold(name: str) -> str:
    """Return a name in the form in which names are compared: NFKC, then case folded."""
    return name.lower() if name.isascii() else normalize("NFKC", name).casefold()


def _fold_typed(text: str) -> str:
    return make_legible(fold(text))


@dataclass(frozen=True, slots=True)
class SqlCondition:
    """The text of a statement, and the values of its `?`. The text never has client input; that is a parameter."""

    text: str
    parameters: tuple[Any, ...] = ()


ALL = SqlCondition("TRUE")


def join_conditions(conditions: Iterable[SqlCondition]) -> SqlCondition:
    """Combine them with AND; TRUE if there are none."""
    parts = tuple(conditions)
    text = " AND ".join(part.text for part in parts)
    return SqlCondition(text or "TRUE", tuple(value for part in parts for value in part.parameters))


def unite(statements: Iterable[SqlCondition]) -> SqlCondition:
    """Combine the rows of all these statements; there is at least one."""
    parts = tuple(statements)
    text = " UNION ALL ".join(f"({part.text})" for part in parts)
    return SqlCondition(text, tuple(value for part in parts for value in part.parameters))


@dataclass(frozen=True, slots=True)
class Pattern:
    """A word with wildcards.

    `pieces`: the parts between its `*`, each as the parts between its `?`, folded.
    """

    pieces: tuple[tuple[str, ...], ...]

    @property
    def expression(self) -> str:
        """The pattern as a regular expression of RE2 for the whole folded name."""
        return "(?s)" + ".*".join(".".join(re.escape(text) for text in piece) for piece in self.pieces)

    @property
    def condition(self) -> SqlCondition:
        """The pattern as a condition on `folded`: cheap conditions first, then the expression if it is needed."""
        texts = [text for piece in self.pieces for text in piece]
        parts = [
            SqlCondition("starts_with(folded, ?)", (texts[0],)),
            SqlCondition("ends_with(folded, ?)", (texts[-1],)),
        ]
        parts += [SqlCondition("contains(folded, ?)", (text,)) for text in dict.fromkeys(texts[1:-1])]
        parts = [part for part in parts if part.parameters != ("",)]
        if len(parts) > 1 or any(len(piece) > 1 for piece in self.pieces):
            parts.append(SqlCondition("regexp_full_match(folded, ?)", (self.expression,)))
        return join_conditions(parts)


@dataclass(frozen=True)
class Keywords:
    """The folded words, and the patterns, each once."""

    words: tuple[str, ...]
    patterns: tuple[Pattern, ...] = ()

    @cached_property
    def _compiled(self) -> list[Any]:
        return [compile_pattern(pattern.expression, MAX_PATTERN_MEMORY) for pattern in self.patterns]

    @cached_property
    def _starts(self) -> list[re.Pattern[str]]:
        return [re.compile(_make_start(word)) for word in self.words]

    @property
    def text(self) -> str:
        """The typed words, folded, with one space between two; `""` if there are only patterns."""
        return " ".join(self.words)

    def matches(self, folded: str) -> bool:
        """True if a folded name matches."""
        return all(word in folded for word in self.words) and all(
            pattern.fullmatch(folded) for pattern in self._compiled
        )

    def rank(self, folded: str) -> int:
        """Return the rank of a folded name that matches."""
        text = self.text
        if not text or folded == text:
            return WHOLE
        if folded.startswith(text):
            return PREFIX
        return WORD_START if all(start.search(folded) for start in self._starts) else REST

    @property
    def condition(self) -> SqlCondition:
        """The condition of `matches` on a column `folded`, the longest and likely rarest word first."""
        words = (SqlCondition("contains(folded, ?)", (word,)) for word in sorted(self.words, key=len, reverse=True))
        return join_conditions((*words, *(pattern.condition for pattern in self.patterns)))

    @property
    def _start_condition(self) -> SqlCondition:
        """The condition that all words are at the beginning of words of the column `folded`."""
        return join_conditions(SqlCondition("regexp_matches(folded, ?)", (_make_start(word),)) for word in self.words)

    def make_bound(self, rank: int, folded: str) -> SqlCondition:
        """Return a condition on a column `folded` that a matching name satisfies if it is not after a name with that
        rank, in the order by rank and folded name. Some names after it may satisfy it too.
        """
        bound = SqlCondition("folded <= ?", (folded,))
        if not self.words:
            return bound
        prefix = SqlCondition("starts_with(folded, ?)", (self.text,))
        if rank <= PREFIX:
            return join_conditions((prefix, bound))
        earlier = (bound, prefix) if rank == WORD_START else (bound, prefix, self._start_condition)
        text = " OR ".join(f"({condition.text})" for condition in earlier)
        return SqlCondition(f"({text})", tuple(value for condition in earlier for value in condition.parameters))

    @property
    def rank_expression(self) -> SqlCondition:
        """The expression of `rank` on a column `folded`."""
        if not self.words:
            return SqlCondition(str(WHOLE))
        starts = self._start_condition
        return SqlCondition(
            f"CASE WHEN folded = ? THEN {WHOLE} WHEN starts_with(folded, ?) THEN {PREFIX} "
            f"WHEN {starts.text} THEN {WORD_START} ELSE {REST} END",
            (self.text, self.text, *starts.parameters),
        )


def _make_start(word: str) -> str:
    """Return the expression for a word at the start of a word of the name, in RE2 and Python."""
    return rf"(?:^|{_BETWEEN_WORDS}){re.escape(word)}"


def parse(text: str) -> Keywords:
    """Parse keywords. Raise BadRequest if they have no word, or too many."""
    if len(text) > MAX_KEYWORDS_LENGTH:
        raise BadRequest(f"keywords are too long: no more than {MAX_KEYWORDS_LENGTH:,} characters")
    typed = [match for match in _TYPED.finditer(text) if match[1] or match[2]]
    if not typed:
        raise BadRequest("keywords are empty")
    if len(typed) > MAX_WORDS:
        raise BadRequest(f"too many keywords: no more than {MAX_WORDS}")
    if sum(len(_WILDCARDS.findall(match[2] or "")) for match in typed) > MAX_WILDCARDS:
        raise BadRequest(f"too many wildcards in the keywords: no more than {MAX_WILDCARDS}")
    words: dict[str, None] = {}
    patterns: dict[Pattern, None] = {}
    for match in typed:
        if match[2] and _WILDCARDS.search(match[2]):
            patterns[_parse_pattern(match[2])] = None
        else:
            words[_fold_typed(match[1] or match[2])] = None
    return Keywords(tuple(words), tuple(patterns))


def _parse_pattern(word: str) -> Pattern:
    pieces = re.split(r"\*+", word)
    return Pattern(tuple(tuple(_fold_typed(text) for text in piece.split("?")) for piece in pieces))


def parse_extensions(texts: Iterable[str]) -> tuple[str, ...]:
    """Return extensions of file names, with or without their dot, folded and unique. Raise BadRequest for too many."""
    extensions = dict.fromkeys(folded for text in texts if (folded := _fold_typed(text.strip()).lstrip(".")))
    if len(extensions) > MAX_EXTENSIONS or any(len(extension) > MAX_EXTENSION_LENGTH for extension in extensions):
        raise BadRequest(f"too many extensions: no more than {MAX_EXTENSIONS} of {MAX_EXTENSION_LENGTH} characters")
    return tuple(extensions)
