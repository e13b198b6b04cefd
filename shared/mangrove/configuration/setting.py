"""Kinds of settings.

A setting is declared once, in a group of `configuration.declared`; everything else is derived from the declaration. It
is a descriptor: on the class it is the `Setting`, on an instance of `Settings` the typed value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, ClassVar, Generic, Self, TypeVar, overload

from mangrove.core.http import parse_integer
from mangrove.core.paths import TreePath
from mangrove.core.patterns import compile_pattern
from mangrove.core.problems import Problem

Value = TypeVar("Value")
Check = Callable[[str], object]
"""Raise ValueError if the setting does not accept a text."""

MAX_NUMBER = 10**15 - 1  # of a number that has only a lower bound
MAX_QUOTED_LETTERS = 40  # of a refused value, in an error message
SWITCHED_ON = ("true", "1")
SWITCHED_OFF = ("false", "0", "")
ABSENT_SWITCHES = {"ftp_enabled": "FTP server", "s3_enabled": "S3 server"}  # known to clients, not declared


class SettingCategory(IntEnum):
    """The numbers of the groups, as clients send them."""

    SINGLE = 0
    SITE = 1
    STYLE = 2
    PREVIEW = 3
    GLOBAL = 4
    OFFLINE = 5
    INDEX = 6
    SSO = 7
    LDAP = 8
    S3 = 9
    FTP = 10
    TRAFFIC = 11


class Flag(IntEnum):
    """The visibility of a setting. Everybody sees PUBLIC and READONLY settings; DEPRECATED ones are not declared."""

    PUBLIC = 0
    PRIVATE = 1
    READONLY = 2
    DEPRECATED = 3


class SettingGroup(Mapping[str, str]):
    """A group of declarations; `values.Settings` inherits from all of them."""

    group: ClassVar[SettingCategory]


class Setting(Generic[Value]):
    """The declaration of a setting; its key is the name that it is assigned to."""

    def __init__(
        self,
        type: str,
        default: str,
        flag: Flag,
        help: str,
        parse: Callable[[str], Value],
        *,
        check: Check | None = None,
        zh: str = "",
        options: str = "",
        bounds: str = "",
        absent: str = "",
        group: SettingCategory | None = None,
    ) -> None:
        self.key = ""
        self.type = type
        self.default = default  # as it is stored
        self.flag = flag
        self.options = options  # of a select, comma-separated
        self.bounds = bounds  # accepted values, for the reference page
        self.label_zh = zh  # the Chinese label of the form
        self.group = group or SettingCategory.SINGLE  # None: the group of its class
        self.absent = absent  # the feature that it would switch on, if this version does not have it
        self.help = f"{help} This version has no {absent}." if absent else help
        self._parse = parse
        self._check = check
        self._has_own_group = group is not None

    def __set_name__(self, owner: type[SettingGroup], name: str) -> None:
        self.key = name
        if not self._has_own_group:
            self.group = owner.group

    @overload
    def __get__(self, settings: None, owner: type) -> Self: ...
    @overload
    def __get__(self, settings: Mapping[str, str], owner: type) -> Value: ...
    def __get__(self, settings: Mapping[str, str] | None, owner: type) -> Self | Value:
        if settings is None:
            return self
        value = self._parse(settings[self.key])
        settings.__dict__[self.key] = value  # the instance has it now; this descriptor is not called for it again
        return value

    def requests_absent(self, value: str) -> bool:
        """True if `value` would switch on a feature that this version does not have."""
        if not self.absent:
            return False
        return value in SWITCHED_ON if self.type == "bool" else value not in ("", self.default)

    def check(self, value: str) -> None:
        """Raise ValueError unless `value` can be saved."""
        if self._check is not None:
            self._check(value)
        if self.requests_absent(value):
            raise ValueError(f'this version has no {self.absent}: only "{self.default}" can be saved')


def _quote(value: str) -> str:
    return f'"{value[:MAX_QUOTED_LETTERS]}"'


def line(default: str, flag: Flag, help: str, **options: Any) -> Setting[str]:
    """Declare a text of one line."""
    return Setting("string", default, flag, help, str, **options)


def text(default: str, flag: Flag, help: str, **options: Any) -> Setting[str]:
    """Declare a text of several lines."""
    return Setting("text", default, flag, help, str, **options)


def words(default: str, flag: Flag, help: str, **options: Any) -> Setting[frozenset[str]]:
    """Declare a comma-separated list of words, which are compared in lower case."""
    return Setting("text", default, flag, help, _parse_words, **options)


def names(default: str, flag: Flag, help: str, **options: Any) -> Setting[frozenset[str]]:
    """Declare a comma-separated list of names. Case is significant."""
    return Setting("string", default, flag, help, _parse_names, **options)


def switch(default: bool, flag: Flag, help: str, **options: Any) -> Setting[bool]:
    """Declare a setting that is on or off."""
    stored = "true" if default else "false"
    return Setting("bool", stored, flag, help, SWITCHED_ON.__contains__, check=_check_switch, **options)


def choice(
    default: str, choices: str, flag: Flag, help: str, *, check: Check | None = None, **options: Any
) -> Setting[str]:
    """Declare a select. `choices` are comma-separated. An empty value is accepted unless `check` refuses it."""

    def check_choice(value: str) -> None:
        if check is not None:
            check(value)
        if value and value not in choices.split(","):
            raise ValueError(f"{_quote(value)} is none of {choices}")

    return Setting("select", default, flag, help, str, options=choices, check=check_choice, **options)


def number(
    default: int,
    flag: Flag,
    help: str,
    *,
    minimum: int | None = None,
    maximum: int = MAX_NUMBER,
    unit: int = 1,
    refusal: str = "",
    **options: Any,
) -> Setting[int]:
    """Declare a whole number. Its value is in units: with 1 << 20, a setting in MiB has bytes as its value.

    With a `minimum`, lower numbers cannot be saved, and a lower number that is stored already counts as the minimum.
    Without it, the number may be negative, or empty for 0. `refusal` is the error message, in front of the refused
    value.
    """

    def parse(value: str) -> int:
        parsed = int(value or 0)
        return (parsed if minimum is None else min(max(parsed, minimum), maximum)) * unit

    def check(value: str) -> None:
        _check_range(value, minimum or 0, maximum, refusal)

    bounds = "" if minimum is None else f"from {minimum}" + ("" if maximum == MAX_NUMBER else f" to {maximum}")
    checked = _check_integer if minimum is None else check
    return Setting("number", str(default), flag, help, parse, bounds=bounds, check=checked, **options)


def speed(flag: Flag, help: str, **options: Any) -> Setting[int | None]:
    """Declare a limit in KiB per second. Its value is in bytes per second, None for no limit."""
    return Setting("number", "-1", flag, help, _parse_speed, check=_check_integer, **options)


def address(default: str, flag: Flag, help: str, **options: Any) -> Setting[tuple[str, int] | None]:
    """Declare an address such as 127.0.0.1:5222. Its value is a host and a port, None if it is empty."""
    return Setting("string", default, flag, help, _parse_address, check=_parse_address, **options)


def paths(default: str, flag: Flag, help: str, **options: Any) -> Setting[tuple[TreePath, ...]]:
    """Declare paths of the tree, one per line."""
    return Setting("text", default, flag, help, _parse_paths, check=_check_paths, **options)


def char_mapping(default: str, flag: Flag, help: str, **options: Any) -> Setting[Mapping[str, str]]:
    """Declare a JSON object that maps a text, which no path can contain, to its replacement."""
    return Setting("text", default, flag, help, _parse_mapping, check=_check_mapping, **options)


def patterns(default: str, flag: Flag, help: str, **options: Any) -> Setting[str]:
    """Declare RE2 patterns, one per line."""
    return text(default, flag, help, check=_check_patterns, **options)


def check_encoding(value: str) -> None:
    """Raise ValueError unless `value` names a text encoding."""
    try:
        is_text = b"a".decode(value, errors="replace") != ""
    except (LookupError, UnicodeError):
        is_text = False
    if not is_text:
        raise ValueError(f"not an encoding: {value[:MAX_QUOTED_LETTERS]}")


def _parse_words(value: str) -> frozenset[str]:
    return frozenset(part.strip().lower() for part in value.split(",") if part.strip())


def _parse_names(value: str) -> frozenset[str]:
    return frozenset(part.strip() for part in value.split(",") if part.strip())


def _parse_speed(value: str) -> int | None:
    kibibytes = int(value or 0)
    return kibibytes << 10 if kibibytes > 0 else None


def _parse_address(value: str) -> tuple[str, int] | None:
    if not value:
        return None
    host, _, digits = value.rpartition(":")
    port = parse_integer(digits)
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not host or port is None or not 0 < port < 65536:
        raise ValueError(f"{_quote(value)} is not an address like localhost:5222")
    return host, port


def _parse_paths(value: str) -> tuple[TreePath, ...]:
    return tuple(TreePath(part.strip()) for part in value.splitlines() if part.strip())


def _parse_mapping(value: str) -> Mapping[str, str]:
    mapping: dict[str, Any] = json.loads(value or "{}")
    return {old: new for old, new in mapping.items() if old and isinstance(new, str)}


def _check_switch(value: str) -> None:
    if value not in (*SWITCHED_ON, *SWITCHED_OFF):
        raise ValueError(f"{_quote(value)} is neither true nor false")


def _check_integer(value: str) -> None:
    try:
        int(value or 0)
    except ValueError:
        raise ValueError(f"{_quote(value)} is not an integer") from None


def _check_range(value: str, minimum: int, maximum: int, refusal: str) -> None:
    is_number = value.isascii() and value.isdecimal() and len(value) <= len(str(MAX_NUMBER))
    if not (is_number and minimum <= int(value) <= maximum):
        end = "on" if maximum == MAX_NUMBER else f"to {maximum}"
        raise ValueError(f"{refusal or f'a whole number from {minimum} {end}'}, got {_quote(value)}")


def _check_patterns(value: str) -> None:
    for pattern in filter(str.strip, value.splitlines()):
        compile_pattern(pattern)


def _check_paths(value: str) -> None:
    try:
        _parse_paths(value)
    except Problem as problem:
        raise ValueError(problem.message) from None


def _check_mapping(value: str) -> None:
    try:
        mapping = json.loads(value)
    except ValueError:
        mapping = None
    if not isinstance(mapping, dict):
        raise ValueError('not a JSON object such as {"/": "|"}')
    for old, new in mapping.items():
        if not (old and isinstance(new, str)) or any(letter in "/\\\x7f" or letter < " " for letter in new):
            raise ValueError(f"{_quote(old)} needs a replacement that is valid in a file name")
