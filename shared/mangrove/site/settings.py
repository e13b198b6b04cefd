"""Changing settings: all values are checked before the first is stored."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Mapping

from mangrove.patterns import compile_pattern
from mangrove.problems import BadRequest, Problem
from mangrove.records import settings as records
from mangrove.site import snapshot
from mangrove.site.table import BY_KEY, READONLY
from mangrove.site.values import make_token

MAX_LINK_HOURS = 876_000  # a hundred years


def save(values: Mapping[str, str]) -> None:
    """Check all values, then store all. Read-only keys are passed over, unknown ones kept as deprecated.

    Type, group, flag and options are the table's, never the client's.
    """
    if not values:
        raise Problem("failed save setting: empty slice found")
    kept = {key: value for key, value in values.items() if key not in BY_KEY or BY_KEY[key].flag != READONLY}
    for key, value in kept.items():
        _check(key, value)
    if kept:
        records.save(kept)


def _check(key: str, value: str) -> None:
    if not key or len(key) > 255 or len(value) > 100_000:
        raise BadRequest(f"setting [{key[:40]}]: the key or its value is too long, or the key is empty")
    setting = BY_KEY.get(key)
    try:
        if setting is not None:
            if key in HOOKS:
                HOOKS[key](value)
            check_type(setting.type, setting.options, value)
    except (ValueError, RecursionError) as error:
        text = error.args[0] if error.args else error
        raise Problem(f"failed to execute hook on {key}: {text}") from None


def check_type(kind: str, options: str, value: str) -> None:
    """ValueError unless `value` is one of a setting's type; `options` are those of a select."""
    if kind == "bool" and value not in ("true", "false", "1", "0", ""):
        raise ValueError(f'"{value[:40]}" is neither true nor false')
    if kind == "number" and value:
        int(value)
    if kind == "select" and value and value not in options.split(","):
        raise ValueError(f"not support: {value[:40]}")


def _check_patterns(value: str) -> None:
    for line in filter(str.strip, value.splitlines()):
        compile_pattern(line)


def _check_json_object(value: str) -> None:
    if not isinstance(json.loads(value), dict):
        raise ValueError("not a JSON object")


def _check_link_hours(value: str) -> None:
    if not (value.isdecimal() and int(value) <= MAX_LINK_HOURS):
        raise ValueError(f'hours from 0 to {MAX_LINK_HOURS}, got "{value[:40]}"')


def _check_chunk_size(value: str) -> None:
    if not (value.isdecimal() and int(value) > 0):
        raise ValueError(f'multipart chunk size must be a positive integer (MB), got "{value[:40]}"')


def _check_whole_number(value: str) -> None:
    if not (value.isascii() and value.isdecimal() and len(value) < 16):
        raise ValueError(f'a whole number from 0 on, got "{value[:40]}"')


def _check_text_encoding(value: str) -> None:
    try:
        is_text = b"a".decode(value, errors="replace") != ""
    except (LookupError, UnicodeError):
        is_text = False
    if not is_text:
        raise ValueError(f"not an encoding: {value[:40]}")


def _check_search_index(value: str) -> None:
    if value not in BY_KEY["search_index"].options.split(","):
        raise ValueError(f"not support index: {value[:40]}")


def _check_hosts(value: str) -> None:
    """Every part is an address, a network or the name of a host."""
    for part in filter(None, re.split(r"[\s,]+", value)):
        if ":" in part or "/" in part:
            ipaddress.ip_network(part.strip("[]"), strict=False)
        elif not re.fullmatch(r"[\w-]+(\.[\w-]+)*\.?", part):
            raise ValueError(f"not a host: {part[:40]}")


def _check_token(value: str) -> None:
    if value and len(value) < 16:
        raise ValueError("a token needs at least 16 characters")


# what a key demands beside its type; each raises ValueError
HOOKS: Mapping[str, Callable[[str], None]] = {
    "privacy_regs": _check_patterns,
    "filename_char_mapping": _check_json_object,
    "link_expiration": _check_link_hours,
    "multipart_chunk_size": _check_chunk_size,
    "archive_max_members": _check_whole_number,
    "archive_max_size": _check_whole_number,
    "archive_max_ratio": _check_whole_number,
    "non_efs_zip_encoding": _check_text_encoding,
    "search_index": _check_search_index,
    "offline_download_allowed_hosts": _check_hosts,
    "token": _check_token,
}


def delete(key: str) -> None:
    """Forget a deprecated setting; Problem for any other."""
    if key in BY_KEY:
        raise Problem(f"setting [{key}] is not deprecated")
    if key not in snapshot.latest().settings:
        raise Problem("failed to get settingItem: record not found")
    records.delete(key)


def reset_token() -> str:
    """Replace the permanent token; links signed with the old one end with it."""
    token = make_token()
    save({"token": token})
    return token
