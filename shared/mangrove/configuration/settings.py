"""Changing settings: all values are checked before the first is stored."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from mangrove.configuration import snapshot
from mangrove.configuration.table import BY_KEY, READONLY, Setting
from mangrove.configuration.values import MOST_SMALL_FILES, make_link_salt, make_token, parse_address
from mangrove.core.paths import TreePath
from mangrove.core.patterns import compile_pattern
from mangrove.core.problems import BadRequest, Problem
from mangrove.net.addresses import check_policy_text
from mangrove.records import settings as records

MAX_LINK_HOURS = 876_000  # a hundred years
MIN_TOKEN_LENGTH = 32  # characters; a shorter one that is stored already goes on
LONGEST_MINIMUM = 64  # characters that a password can be asked to have
OLDER_TOKEN_LENGTH = 16  # that was enough before; backups may carry such a token


def save(values: Mapping[str, str]) -> None:
    """Check all values, then store all. Read-only keys are passed over, unknown ones kept as deprecated.

    Type, group, flag and options are the table's, never the client's.
    """
    if not values:
        raise Problem("there is no setting to save")
    kept = {key: value for key, value in values.items() if key not in BY_KEY or BY_KEY[key].flag != READONLY}
    is_backup = "version" in values  # all that a list of the settings told, and not those of one form
    for key, value in kept.items():
        if not (is_backup and key == "token" and len(value) >= OLDER_TOKEN_LENGTH):
            _check(key, value)
    _renew_salt(kept)
    if kept:
        records.save(kept)


def _renew_salt(values: dict[str, str]) -> None:
    """Have the salt of links stored with a new token alone: the one that a backup brings with it, or another."""
    salt, now = values.pop("link_salt", ""), snapshot.latest().settings
    if values.get("token", now.token) != now.token:
        values["link_salt"] = make_link_salt() if salt in ("", now.link_salt) else salt


def _check(key: str, value: str) -> None:
    if not key or len(key) > 255 or len(value) > 100_000:
        raise BadRequest(f"setting [{key[:40]}]: the key or its value is too long, or the key is empty")
    setting = BY_KEY.get(key)
    try:
        if setting is not None:
            if key in HOOKS:
                HOOKS[key](value)
            check_type(setting.type, setting.options, value)
            _check_presence(setting, value)
    except (ValueError, RecursionError) as error:
        text = error.args[0] if error.args else error
        raise Problem(f"setting [{key}]: {text}") from None


def _check_presence(setting: Setting, value: str) -> None:
    if setting.asks_for_absent(value):
        raise ValueError(f'this version has no {setting.absent}: only "{setting.default}" can be saved')


def check_type(kind: str, options: str, value: str) -> None:
    """ValueError unless `value` is one of a setting's type; `options` are those of a select."""
    if kind == "bool" and value not in ("true", "false", "1", "0", ""):
        raise ValueError(f'"{value[:40]}" is neither true nor false')
    if kind == "number" and value and not _is_integer(value):
        raise ValueError(f'"{value[:40]}" is no integer')
    if kind == "select" and value and value not in options.split(","):
        raise ValueError(f'"{value[:40]}" is none of {options}')


def _is_integer(value: str) -> bool:
    try:
        int(value)
    except ValueError:
        return False
    return True


def _check_patterns(value: str) -> None:
    for line in filter(str.strip, value.splitlines()):
        compile_pattern(line)


def _check_char_mapping(value: str) -> None:
    try:
        mapping = json.loads(value)
    except ValueError:
        mapping = None
    if not isinstance(mapping, dict):
        raise ValueError('not a JSON object such as {"/": "|"}')
    for old, new in mapping.items():
        if not (old and isinstance(new, str)) or any(letter in "/\\\x7f" or letter < " " for letter in new):
            raise ValueError(f'"{old[:40]}" needs a text to stand for it that a name may hold')


def _check_link_hours(value: str) -> None:
    if not (value.isdecimal() and int(value) <= MAX_LINK_HOURS):
        raise ValueError(f'hours from 0 to {MAX_LINK_HOURS}, got "{value[:40]}"')


def _check_chunk_size(value: str) -> None:
    if not (value.isdecimal() and int(value) > 0):
        raise ValueError(f'multipart chunk size must be a positive integer (MB), got "{value[:40]}"')


def _check_whole_number(value: str) -> None:
    if not (value.isascii() and value.isdecimal() and len(value) < 16):
        raise ValueError(f'a whole number from 0 on, got "{value[:40]}"')


def _check_small_files(value: str) -> None:
    if not (value.isascii() and value.isdecimal() and len(value) < 3 and 1 <= int(value) <= MOST_SMALL_FILES):
        raise ValueError(f'a whole number from 1 to {MOST_SMALL_FILES}, got "{value[:40]}"')


def _check_password_length(value: str) -> None:
    if not (value.isascii() and value.isdecimal() and int(value) <= LONGEST_MINIMUM):
        raise ValueError(f'a whole number from 0 to {LONGEST_MINIMUM}, got "{value[:40]}"')


def _check_text_encoding(value: str) -> None:
    try:
        is_text = b"a".decode(value, errors="replace") != ""
    except (LookupError, UnicodeError):
        is_text = False
    if not is_text:
        raise ValueError(f"not an encoding: {value[:40]}")


def _check_paths(value: str) -> None:
    try:
        for line in filter(str.strip, value.splitlines()):
            TreePath(line.strip())
    except Problem as problem:
        raise ValueError(problem.message) from None


def _check_search_index(value: str) -> None:
    if value not in BY_KEY["search_index"].options.split(","):
        raise ValueError(f"not support index: {value[:40]}")


def _check_token(value: str) -> None:
    if value and len(value) < MIN_TOKEN_LENGTH and value != snapshot.latest().settings.token:
        raise ValueError(f"a token needs at least {MIN_TOKEN_LENGTH} characters, a shorter one can be guessed")


# what a key demands beside its type; each raises ValueError
def _check_address(value: str) -> None:
    parse_address(value)


HOOKS: Mapping[str, Callable[[str], None]] = {
    "privacy_regs": _check_patterns,
    "filename_char_mapping": _check_char_mapping,
    "link_expiration": _check_link_hours,
    "min_password_length": _check_password_length,
    "multipart_chunk_size": _check_chunk_size,
    "small_file_threads_num": _check_small_files,
    "archive_max_members": _check_whole_number,
    "archive_max_size": _check_whole_number,
    "archive_max_ratio": _check_whole_number,
    "non_efs_zip_encoding": _check_text_encoding,
    "search_index": _check_search_index,
    "ignore_paths": _check_paths,
    "max_index_depth": _check_whole_number,
    "offline_download_allowed_hosts": check_policy_text,
    "token": _check_token,
    "sftp_listen": _check_address,
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
