"""Changes of settings. All values are checked before the first is stored."""

from __future__ import annotations

from collections.abc import Mapping

from mangrove import configuration
from mangrove.configuration.setting import ABSENT_SWITCHES, SWITCHED_OFF, Flag
from mangrove.configuration.values import DECLARED, VISIBLE_KEYS, make_link_salt, make_token
from mangrove.core.problems import BadRequest, Problem, RecordNotFound
from mangrove.records import settings as records

MAX_KEY_LENGTH = 255
MAX_VALUE_LENGTH = 100_000
FORMER_MIN_TOKEN_LENGTH = 16  # the former minimum; backups of older versions have such tokens


def save(values: Mapping[str, str]) -> None:
    """Check all values, then store them. Read-only keys are ignored; unknown keys are stored as deprecated.

    Type, group, flag and options are those of the declaration, not of the client.
    """
    if not values:
        raise Problem("there is no setting to save")
    changes = {key: value for key, value in values.items() if key not in DECLARED or not _is_read_only(key)}
    is_backup = "version" in values  # the client sends all settings, not one form
    for key, value in changes.items():
        if not (is_backup and key == "token" and len(value) >= FORMER_MIN_TOKEN_LENGTH):
            _check(key, value)
    _renew_salt(changes)
    if changes:
        records.save(changes, VISIBLE_KEYS)


def store_visible() -> None:
    """Store in the clear what everybody may see, of settings that an earlier version stored."""
    stored, visible = records.all(), records.all_visible()
    missing = {key: value for key, value in stored.items() if key in VISIBLE_KEYS and visible.get(key) != value}
    if missing:
        records.save(missing, VISIBLE_KEYS)


def _is_read_only(key: str) -> bool:
    return DECLARED[key].flag is Flag.READONLY


def _renew_salt(values: dict[str, str]) -> None:
    """Store the salt of links only with a new token: the salt of a backup, or a new one."""
    salt, now = values.pop("link_salt", ""), configuration.get_sync().settings
    if values.get("token", now.token) != now.token:
        values["link_salt"] = make_link_salt() if salt in ("", now.link_salt) else salt


def _check(key: str, value: str) -> None:
    if not key or len(key) > MAX_KEY_LENGTH or len(value) > MAX_VALUE_LENGTH:
        raise BadRequest(f"setting [{key[:40]}]: the key or its value is too long, or the key is empty")
    if key == "token" and value == configuration.get_sync().settings.token:
        return  # an older version may have stored a shorter token
    if key in ABSENT_SWITCHES and value not in SWITCHED_OFF:
        raise Problem(f'setting [{key}]: this version has no {ABSENT_SWITCHES[key]}: only "false" can be saved')
    if key in DECLARED:
        try:
            DECLARED[key].check(value)
        except (ValueError, RecursionError) as error:
            raise Problem(f"setting [{key}]: {error.args[0] if error.args else error}") from None


def delete(key: str) -> None:
    """Delete a deprecated setting. Raise Problem for any other setting."""
    if key in DECLARED:
        raise Problem(f"setting [{key}] is not deprecated")
    if key not in configuration.get_sync().settings:
        raise RecordNotFound("failed to get settingItem: record not found")
    records.delete(key)


def reset_token() -> str:
    """Replace the permanent token. Links that were signed with the old one become invalid."""
    token = make_token()
    save({"token": token})
    return token
