"""What was typed, as conditions on folded names.

All words must occur in a name, in any order, wherever in it; case and the ways in which Unicode writes the same do not
matter. `"quoted text"` is one word, spaces, `*` and `?` included; a quotation mark without a partner, or inside a word,
is a character like any other. A word with `*` (any text, or none) or `?` (one character) outside quotation marks is a
pattern for the whole name, as `locate`, `find -name` and shells take it: `*.jpg` is how a name ends, `img_*` how it
begins, `*2024*` the same as `2024`. Full-width `＊` and `？`, which Chinese names hold, are no wildcards.

How well a name fits: it is what was typed (WHOLE), begins with it (PREFIX), all words begin where words of the name do
(WORD_START), or not all do (REST). Patterns do not count in that; without another word all names fit the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from unicodedata import normalize

from mangrove.core.patterns import SMALL_MEMORY, compile_pattern
from mangrove.core.problems import BadRequest
from mangrove.search.names import make_legible

LONGEST_KEYWORDS = 1000  # characters
MOST_WORDS = 32
MOST_WILDCARDS = 32  # in all words; `**` is one
MOST_EXTENSIONS = 32
LONGEST_EXTENSION = 64  # characters

WHOLE, PREFIX, WORD_START, REST = range(4)
_BETWEEN_WORDS = r"[\x00-/:-@\[-`{-\x7f\xb7–—‘’“”…、。〈-】]"  # what a word starts behind, in RE2 as in Python

_TYPED = re.compile(r'"([^"]*)"|(\S+)')
_WILDCARDS = re.compile(r"\*+|\?")


def fold(name: str) -> str:
    """A name as it is compared: NFKC, then case folded."""
    return name.lower() if name.isascii() else normalize("NFKC", name).casefold()


def _fold_typed(text: str) -> str:
    return make_legible(fold(text))


@dataclass(frozen=True, slots=True)
class Condition:
    """Text of a statement, and what its `?` stand for. The text is ours alone; what a caller sent is a parameter."""

    text: str
    parameters: tuple[Any, ...] = ()


def join_conditions(conditions: Iterable[Condition]) -> Condition:
    """All of them; TRUE when there are none."""
    parts = tuple(conditions)
    text = " AND ".join(part.text for part in parts)
    return Condition(text or "TRUE", tuple(value for part in parts for value in part.parameters))


@dataclass(frozen=True, slots=True)
class Pattern:
    """A word with wildcards. `pieces`: what is between its `*`, each as what is between its `?`, folded."""

    pieces: tuple[tuple[str, ...], ...]

    @property
    def expression(self) -> str:
        """It as a regular expression of RE2 for the whole folded name."""
        return "(?s)" + ".*".join(".".join(re.escape(text) for text in piece) for piece in self.pieces)

    @property
    def condition(self) -> Condition:
        """It for a column `folded`: what is cheap to look for goes before the expression, if that is needed at all."""
        texts = [text for piece in self.pieces for text in piece]
        parts = [Condition("starts_with(folded, ?)", (texts[0],)), Condition("ends_with(folded, ?)", (texts[-1],))]
        parts += [Condition("contains(folded, ?)", (text,)) for text in dict.fromkeys(texts[1:-1])]
        parts = [part for part in parts if part.parameters != ("",)]
        if len(parts) > 1 or any(len(piece) > 1 for piece in self.pieces):
            parts.append(Condition("regexp_full_match(folded, ?)", (self.expression,)))
        return join_conditions(parts)


@dataclass(frozen=True)
class Keywords:
    """The folded words, and the patterns, each once."""

    words: tuple[str, ...]
    patterns: tuple[Pattern, ...] = ()

    @cached_property
    def _compiled(self) -> list[Any]:
        return [compile_pattern(pattern.expression, SMALL_MEMORY) for pattern in self.patterns]

    @cached_property
    def _starts(self) -> list[re.Pattern[str]]:
        return [re.compile(_make_start(word)) for word in self.words]

    @property
    def text(self) -> str:
        """The words as they were typed, folded, one space between two; `""` when there are only patterns."""
        return " ".join(self.words)

    def matches(self, folded: str) -> bool:
        """Whether a folded name is found."""
        return all(word in folded for word in self.words) and all(
            pattern.fullmatch(folded) for pattern in self._compiled
        )

    def rank(self, folded: str) -> int:
        """How well a folded name that is found fits."""
        text = self.text
        if not text or folded == text:
            return WHOLE
        if folded.startswith(text):
            return PREFIX
        return WORD_START if all(start.search(folded) for start in self._starts) else REST

    @property
    def condition(self) -> Condition:
        """What `matches` says, of a column `folded`; the longest word, most likely the rarest, first."""
        words = (Condition("contains(folded, ?)", (word,)) for word in sorted(self.words, key=len, reverse=True))
        return join_conditions((*words, *(pattern.condition for pattern in self.patterns)))

    @property
    def rank_expression(self) -> Condition:
        """What `rank` says, of a column `folded`."""
        if not self.words:
            return Condition(str(WHOLE))
        starts = join_conditions(Condition("regexp_matches(folded, ?)", (_make_start(word),)) for word in self.words)
        return Condition(
            f"CASE WHEN folded = ? THEN {WHOLE} WHEN starts_with(folded, ?) THEN {PREFIX} "
            f"WHEN {starts.text} THEN {WORD_START} ELSE {REST} END",
            (self.text, self.text, *starts.parameters),
        )


def _make_start(word: str) -> str:
    """The expression for a word at the start of one of the name's, in RE2 and Python."""
    return rf"(?:^|{_BETWEEN_WORDS}){re.escape(word)}"


def parse(text: str) -> Keywords:
    """What was typed; BadRequest when there is no word in it, or too much."""
    if len(text) > LONGEST_KEYWORDS:
        raise BadRequest(f"keywords are too long: no more than {LONGEST_KEYWORDS:,} characters")
    typed = [match for match in _TYPED.finditer(text) if match[1] or match[2]]
    if not typed:
        raise BadRequest("keywords are empty")
    if len(typed) > MOST_WORDS:
        raise BadRequest(f"too many keywords: no more than {MOST_WORDS}")
    if sum(len(_WILDCARDS.findall(match[2] or "")) for match in typed) > MOST_WILDCARDS:
        raise BadRequest(f"too many wildcards in the keywords: no more than {MOST_WILDCARDS}")
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
    """Extensions of file names, with or without their dot, folded, each once; BadRequest for too many."""
    extensions = dict.fromkeys(folded for text in texts if (folded := _fold_typed(text.strip()).lstrip(".")))
    if len(extensions) > MOST_EXTENSIONS or any(len(extension) > LONGEST_EXTENSION for extension in extensions):
        raise BadRequest(f"too many extensions: no more than {MOST_EXTENSIONS} of {LONGEST_EXTENSION} characters")
    return tuple(extensions)
