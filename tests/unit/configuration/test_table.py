"""The table of settings: every line is one that the service itself would take."""

from __future__ import annotations

from mangrove import __version__
from mangrove.configuration.settings import check_type
from mangrove.configuration.table import BY_KEY, PRIVATE, PUBLIC, READONLY, TABLE


def test_the_tables_defaults_are_values_it_would_take() -> None:
    assert len(BY_KEY) == len(TABLE)
    for setting in TABLE:
        assert setting.type in ("string", "number", "bool", "select", "text"), setting.key
        assert setting.flag in (PUBLIC, PRIVATE, READONLY), setting.key
        assert bool(setting.options) == (setting.type == "select"), setting.key
        check_type(setting.type, setting.options, setting.default)


def test_what_is_secret_by_its_name_is_private() -> None:
    secret = [key for key in BY_KEY if key == "token" or key.endswith(("_secret", "_password", "_secret_access_key"))]
    assert len(secret) >= 4
    assert {BY_KEY[key].flag for key in secret} == {PRIVATE}


def test_the_version_cannot_be_set() -> None:
    assert (BY_KEY["version"].default, BY_KEY["version"].flag) == (f"v{__version__}", READONLY)
