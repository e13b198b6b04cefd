"""Changing settings: all values are checked before the first is stored."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Mapping

import re2

from mangrove.problems import BadRequest, Problem
from mangrove.records import settings as records
from mangrove.site import snapshot
from mangrove.site.table import BY_KEY, READONLY
from mangrove.site.values import new_token

LONGEST_LINK = 876_000  # hours: a hundred years


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
        snapshot.changed()


def _check(key: str, value: str) -> None:
    if not key or len(key) > 255 or len(value) > 100_000:
        raise BadRequest(f"setting [{key[:40]}]: the key or its value is too long, or the key is empty")
    setting = BY_KEY.get(key)
    try:
        if setting is not None:
            _hook(key, value)
            _fits(setting.type, setting.options, value)
    except (ValueError, RecursionError, re2.error) as error:
        text = error.args[0] if error.args else error
        shown = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
        raise Problem(f"failed to execute hook on {key}: {shown}") from None


def _fits(kind: str, options: str, value: str) -> None:
    if kind == "bool" and value not in ("true", "false", "1", "0", ""):
        raise ValueError(f'"{value[:40]}" is neither true nor false')
    if kind == "number" and value:
        int(value)
    if kind == "select" and value and value not in options.split(","):
        raise ValueError(f"not support: {value[:40]}")


def _hook(key: str, value: str) -> None:
    if key == "privacy_regs":
        for line in filter(str.strip, value.splitlines()):
            re2.compile(line)
    if key == "filename_char_mapping" and not isinstance(json.loads(value), dict):
        raise ValueError("not a JSON object")
    if key == "link_expiration" and not (value.isdecimal() and int(value) <= LONGEST_LINK):
        raise ValueError(f'hours from 0 to {LONGEST_LINK}, got "{value[:40]}"')
    if key == "multipart_chunk_size" and not (value.isdecimal() and int(value) > 0):
        raise ValueError(f'multipart chunk size must be a positive integer (MB), got "{value[:40]}"')
    if key.startswith("archive_max_") and not (value.isascii() and value.isdecimal() and len(value) < 16):
        raise ValueError(f'a whole number from 0 on, got "{value[:40]}"')
    if key == "non_efs_zip_encoding" and not _is_text_encoding(value):
        raise ValueError(f"not an encoding: {value[:40]}")
    if key == "search_index" and value not in BY_KEY[key].options.split(","):
        raise ValueError(f"not support index: {value[:40]}")
    if key == "offline_download_allowed_hosts":
        _hosts(value)
    if key == "token" and value and len(value) < 16:
        raise ValueError("a token needs at least 16 characters")


def _is_text_encoding(name: str) -> bool:
    try:
        return b"a".decode(name, errors="replace") != ""
    except (LookupError, UnicodeError):
        return False


def _hosts(text: str) -> None:
    """ValueError unless every part is an address, a network or the name of a host."""
    for part in filter(None, re.split(r"[\s,]+", text)):
        if ":" in part or "/" in part:
            ipaddress.ip_network(part.strip("[]"), strict=False)
        elif not re.fullmatch(r"[\w-]+(\.[\w-]+)*\.?", part):
            raise ValueError(f"not a host: {part[:40]}")


def delete(key: str) -> None:
    """Forget a deprecated setting; Problem for any other."""
    if key in BY_KEY:
        raise Problem(f"setting [{key}] is not deprecated")
    if key not in snapshot.current().settings:
        raise Problem("failed to get settingItem: record not found")
    records.delete(key)
    snapshot.changed()


def reset_token() -> str:
    """Replace the permanent token; links signed with the old one end with it."""
    token = new_token()
    save({"token": token})
    return token
