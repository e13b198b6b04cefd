"""Values of settings: typed for the service, as records for the wire."""

from __future__ import annotations

import secrets
import string
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from mangrove.configuration.declared.access import Global, Ldap, Sso
from mangrove.configuration.declared.protocols import Ftp, Protocols, S3Server
from mangrove.configuration.declared.site import Preview, Site, Style
from mangrove.configuration.declared.work import Index, Offline, Traffic
from mangrove.configuration.setting import ABSENT_SWITCHES, SWITCHED_OFF, Flag, Setting, SettingCategory, SettingGroup
from mangrove.core.patterns import compile_pattern
from mangrove.core.problems import BadRequest

GROUPS: tuple[type[SettingGroup], ...] = (
    Site, Style, Preview, Global, Index, Sso, Ldap, S3Server, Ftp, Traffic, Offline, Protocols,
)  # fmt: skip
DECLARED: Mapping[str, Setting[Any]] = {
    key: value for group in GROUPS for key, value in vars(group).items() if isinstance(value, Setting)
}
PUBLIC_FLAGS = (Flag.PUBLIC, Flag.READONLY)
IN_PAGE = ("customize_head", "customize_body")  # everybody gets them with the page
VISIBLE_KEYS = frozenset({key for key, setting in DECLARED.items() if setting.flag in PUBLIC_FLAGS}.union(IN_PAGE))
TYPE_CODES = ((3, "audio_types"), (2, "video_types"), (5, "image_types"), (4, "text_types"))  # the first match wins
_LETTERS = string.ascii_letters + string.digits
_POSITIONS = {key: position for position, key in enumerate(DECLARED)}


def _requests_absent(key: str, value: str) -> bool:
    setting = DECLARED.get(key)
    if setting is None:
        return key in ABSENT_SWITCHES and value not in SWITCHED_OFF
    return setting.requests_absent(value)


class Settings(Site, Style, Preview, Global, Index, Sso, Ldap, S3Server, Ftp, Traffic, Offline, Protocols):
    """All values of one snapshot, with defaults: as text by key, and typed as attributes.

    A value of an older version that switches on a feature which is absent here counts as not stored.
    """

    def __init__(self, stored: Mapping[str, str]) -> None:
        self._stored = dict(stored)
        known = {key: value for key, value in stored.items() if not _requests_absent(key, value)}
        self._values = {key: setting.default for key, setting in DECLARED.items()} | known
        self._values["version"] = DECLARED["version"].default

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def replace(self, keys: Collection[str], stored: Mapping[str, str]) -> Settings:
        """Return these values, with those of `keys` read from `stored`, or set to their defaults."""
        return Settings({key: value for key, value in self._stored.items() if key not in keys} | dict(stored))

    @cached_property
    def type_codes(self) -> dict[str, int]:
        """Type codes by extension."""
        codes: dict[str, int] = {}
        for code, key in TYPE_CODES:
            for extension in getattr(self, key):
                codes.setdefault(extension, code)
        return codes

    @cached_property
    def privacy_patterns(self) -> tuple[Any, ...]:
        """The compiled patterns of `privacy_regs`."""
        return tuple(compile_pattern(line) for line in self.privacy_regs.splitlines() if line.strip())

    @property
    def is_durable(self) -> bool:
        """True if a file has to survive a power cut before it counts as stored."""
        return self.durability == "file"

    @property
    def has_search_index(self) -> bool:
        """True if the index is on. All known engines mean the same index."""
        return self.search_index not in ("", "none")

    @property
    def corrects_index(self) -> bool:
        """True if a listing that is read for another purpose corrects the index."""
        return self.has_search_index and self.auto_update_index

    @property
    def marks_changes(self) -> bool:
        """True if the search finds changes through this service right after them."""
        return self.has_search_index and (self.auto_update_index or self.handle_hook_after_writing)

    def task_workers(self, setting: str) -> int:
        """Return the number of concurrent tasks, by the key of a `…_task_threads_num` setting; 0 pauses."""
        return int(self._values[setting] or 0)

    def get_public(self) -> dict[str, str]:
        """Return the values that everybody may see."""
        return {key: self._values[key] for key, setting in DECLARED.items() if setting.flag in PUBLIC_FLAGS}

    def make_records(self, groups: frozenset[int] | None = None) -> list[dict[str, Any]]:
        """Return the wire records, of some groups or all, in the order of declaration; unknown keys last."""
        return _select((make_record(key, value) for key, value in self._values.items()), groups)

    def make_record(self, key: str) -> dict[str, Any]:
        """Return the wire record of a key. Raise BadRequest if the key is unknown."""
        if key not in self._values:
            raise BadRequest("record not found")
        return make_record(key, self._values[key])


def make_record(key: str, value: str) -> dict[str, Any]:
    """Return the record of a key; one that this version does not know is returned as deprecated."""
    setting = DECLARED.get(key)
    if setting is None:
        return {
            "key": key, "value": value, "help": "", "type": "string", "options": "",
            "group": SettingCategory.SINGLE.value, "flag": Flag.DEPRECATED.value, "index": 0,
        }  # fmt: skip
    return {
        "key": key, "value": value, "help": setting.help, "type": setting.type, "options": setting.options,
        "group": setting.group.value, "flag": setting.flag.value, "index": _POSITIONS[key],
    }  # fmt: skip


def make_default_records(groups: frozenset[int] | None = None) -> list[dict[str, Any]]:
    """Return the records of all defaults, with a fresh token each time."""
    defaults = {key: setting.default for key, setting in DECLARED.items()} | {"token": make_token()}
    return _select((make_record(key, value) for key, value in defaults.items()), groups)


def _select(rows: Iterable[dict[str, Any]], groups: frozenset[int] | None) -> list[dict[str, Any]]:
    return [row for row in rows if groups is None or row["group"] in groups]


def make_token() -> str:
    """Make a permanent token: `mangrove-`, a UUID, 64 letters and digits."""
    return f"mangrove-{uuid.uuid4()}{''.join(secrets.choice(_LETTERS) for _ in range(64))}"


def make_link_salt() -> str:
    """Make a salt for the key of links."""
    return secrets.token_urlsafe(16)
