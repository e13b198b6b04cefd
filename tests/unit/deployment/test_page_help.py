"""Texts, options and versions of the page agree with the service."""

from __future__ import annotations

import json
import re
from pathlib import Path

from mangrove.configuration.values import DECLARED
from mangrove.drivers import registry
from mangrove.drivers.options import list_common_items

ROOT = Path(__file__).parents[3]
TRANSLATIONS = ROOT / "page" / "src" / "text" / "help.zh.ts"
FORM = ROOT / "page" / "src" / "views" / "manage" / "storages" / "form.ts"
ABSENT = "This version has no"  # the page does not show such a setting
KEY = re.compile(r"^  (?:'((?:[^'\\]|\\.)*)'|\"([^\"]*)\"):", re.MULTILINE)


def list_help_texts() -> set[str]:
    texts = {setting.help for setting in DECLARED.values()}
    for name in registry.list_names():
        driver = registry.load(name)
        items = [*driver.Options.list_form_items(), *list_common_items(driver.config)]
        texts |= {item.help for item in items} | {driver.config.alert.rpartition("|")[2]}
    return texts


def list_translated() -> set[str]:
    keys = KEY.findall(TRANSLATIONS.read_text())
    return {(single or double).replace("\\'", "'").replace("\\n", "\n") for single, double in keys}


def test_every_translated_help_text_is_one_of_the_service() -> None:
    keys = list_translated()
    assert keys and keys - list_help_texts() == set()


def test_every_help_text_has_a_translation() -> None:
    texts = {text for text in list_help_texts() if text and not text.startswith("https://") and ABSENT not in text}
    assert texts - list_translated() == set()


def test_folded_options_of_the_page_are_options_of_drivers() -> None:
    (words,) = re.findall(r"RARE_OPTIONS.*?\((.*?)\)\.split", FORM.read_text(), re.DOTALL)
    folded = set(" ".join(re.findall(r"'([^']*)'", words)).split())
    options = {item.name for name in registry.list_names() for item in registry.load(name).Options.list_form_items()}
    assert folded and folded - options == set()


def test_packages_of_npm_have_no_version_of_their_own() -> None:
    """The version of the service is that of the page and of what comes from npm."""
    for path in (ROOT / "package.json", ROOT / "page" / "package.json"):
        assert "version" not in json.loads(path.read_text())
