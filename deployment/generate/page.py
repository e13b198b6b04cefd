"""Enumerations of the service as the page uses them, and the Chinese labels of settings."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from enum import IntEnum
from pathlib import Path
from typing import Any

from deployment.generate import Files
from mangrove.configuration.setting import Flag, SettingCategory
from mangrove.configuration.values import DECLARED
from mangrove.identity import rights
from mangrove.identity.rights import Right
from mangrove.tasks.core.model import State
from mangrove.tasks.core.registry import KINDS

EXCEPTIONS = Path(__file__).parents[1] / "checks" / "exceptions.toml"
READ_ELSEWHERE = "other front ends read it"
HEAD = "// Derived from the service by `make generate`.\n"


def generate_enums() -> Files:
    """Derive the rights, roles, task kinds, task states, and groups and flags of settings."""
    numbers: list[tuple[str, str, Mapping[str, int]]] = [
        ("RIGHTS", "The bits of a user's `permission`.", _read(right for right in Right if right)),
        ("ROLES", "The roles of users.", {"normal": rights.NORMAL, "guest": rights.GUEST, "admin": rights.ADMIN}),
        ("SETTING_GROUPS", "Groups of settings.", _read(SettingCategory)),
        ("SETTING_FLAGS", "The visibility of a setting.", _read(Flag)),
    ]
    kinds = [kind.name for kind in KINDS.values() if kind.is_listed]
    states = [state.name.lower() for state in sorted(State)]
    parts = [_render_numbers(*part) for part in numbers]
    parts.append(_render_names("TASK_KINDS", "Kinds of tasks that users see.", kinds))
    parts.append(_render_names("TASK_STATES", "States of tasks, by their number.", states))
    return {"page/src/api/enums.ts": HEAD + "\n" + "\n".join(parts)}


def generate_kinds() -> Files:
    """Derive the titles of the kinds of tasks, by language."""
    kinds = sorted((kind for kind in KINDS.values() if kind.is_listed), key=lambda kind: kind.name)
    titles = {"en": {kind.name: kind.title for kind in kinds}, "zh": {kind.name: kind.title_zh for kind in kinds}}
    parts = [
        f"  {language}: {{\n" + "".join(f"    {name}: '{title}',\n" for name, title in rows.items()) + "  },\n"
        for language, rows in titles.items()
    ]
    head = "\n/** The titles of the kinds of tasks. */\nexport const taskKinds = {\n"
    return {"page/src/text/kinds.ts": HEAD + head + "".join(parts) + "}\n"}


def generate_hidden_settings() -> Files:
    """Derive the settings that the page shows apart: of absent features, and those that only other front ends read."""
    effects = tomllib.loads(EXCEPTIONS.read_text())["settings_have_an_effect"]
    absent = sorted(key for key, setting in DECLARED.items() if setting.absent)
    foreign = sorted(key for key, reason in effects.items() if reason == READ_ELSEWHERE)
    parts = [
        _render_names("ABSENT_SETTINGS", "Settings of features that this version does not have.", absent),
        _render_names("FOREIGN_SETTINGS", "Settings that only other front ends read.", foreign),
    ]
    return {"page/src/text/hiddenSettings.ts": HEAD + "\n" + "\n".join(parts)}


def _read(members: Iterable[IntEnum] | Iterable[Right]) -> dict[str, int]:
    return {_format_name(str(member.name)): int(member) for member in members}


def _format_name(name: str) -> str:
    first, *others = name.lower().split("_")
    return first + "".join(word.capitalize() for word in others)


def _render_numbers(name: str, text: str, values: Mapping[str, int]) -> str:
    rows = "".join(f"  {key}: {value},\n" for key, value in values.items())
    return f"/** {text} */\nexport const {name} = {{\n{rows}}} as const\n"


def _render_names(name: str, text: str, values: Iterable[str]) -> str:
    rows = "".join(f"  '{value}',\n" for value in values)
    return f"/** {text} */\nexport const {name} = [\n{rows}] as const\n"


def generate_labels() -> Files:
    """Derive the Chinese labels of settings."""
    settings: dict[str, Any] = dict(sorted(DECLARED.items()))
    rows = "".join(f"  {key}: {_quote(setting.label_zh)},\n" for key, setting in settings.items())
    text = "/** The names of settings in Chinese. */\nexport const settingLabels: Record<string, string> = {\n"
    return {"page/src/text/settings.zh.ts": f"{HEAD}\n{text}{rows}}}\n"}


def _quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
