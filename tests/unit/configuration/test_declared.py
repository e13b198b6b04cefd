"""The declarations of the settings."""

from __future__ import annotations

import re

import pytest

from mangrove import __version__
from mangrove.configuration.setting import Flag, Setting, SettingCategory, SettingGroup, line, number
from mangrove.configuration.values import DECLARED, GROUPS, Settings


@pytest.mark.parametrize("key", DECLARED)
def test_declaration_is_complete(key: str) -> None:
    setting = DECLARED[key]
    assert setting.key == key
    assert setting.type in ("string", "number", "bool", "select", "text")
    assert setting.flag in (Flag.PUBLIC, Flag.PRIVATE, Flag.READONLY)
    assert bool(setting.options) == (setting.type == "select")
    assert re.fullmatch(r"\S.+\.", setting.help, re.S)
    assert re.search(r"\S", setting.label_zh)
    setting.check(setting.default)


def test_groups_are_those_of_the_settings_class() -> None:
    assert Settings.__bases__ == GROUPS
    assert {setting.group for setting in DECLARED.values()} == set(SettingCategory)
    assert len(DECLARED) == sum(isinstance(value, Setting) for group in GROUPS for value in vars(group).values())


def test_secret_by_its_name_is_private() -> None:
    secret = [key for key in DECLARED if key == "token" or key.endswith(("_secret", "_password", "_secret_access_key"))]
    assert len(secret) >= 4
    assert {DECLARED[key].flag for key in secret} == {Flag.PRIVATE}


def test_version_cannot_be_set() -> None:
    assert (Settings.version.default, Settings.version.flag) == (f"v{__version__}", Flag.READONLY)


class Toys(SettingGroup):
    group = SettingCategory.TRAFFIC

    toy_seconds = number(7, Flag.PRIVATE, "Seconds that a toy waits.", minimum=1, maximum=9, zh="玩具")
    toy_colour = line("red", Flag.PRIVATE, "The colour of the toy.", group=SettingCategory.STYLE, zh="颜色")


class MoreSettings(Settings, Toys):
    """The settings and those of the toys."""


def test_new_declaration_is_typed_and_checked() -> None:
    setting: Setting[int] = Toys.toy_seconds
    assert (setting.key, setting.group, Toys.toy_colour.group) == (
        "toy_seconds",
        SettingCategory.TRAFFIC,
        SettingCategory.STYLE,
    )
    seconds: list[int] = [MoreSettings({"toy_seconds": stored}).toy_seconds for stored in ("3", "70", "")]
    assert seconds == [3, 9, 1]
    with pytest.raises(ValueError, match='a whole number from 1 to 9, got "0"'):
        setting.check("0")
