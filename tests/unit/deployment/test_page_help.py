"""The Chinese help texts of the page belong to help texts of the service."""

from __future__ import annotations

import re
from pathlib import Path

from mangrove.configuration.values import DECLARED
from mangrove.drivers import registry
from mangrove.drivers.options import list_common_items

TRANSLATIONS = Path(__file__).parents[3] / "page" / "src" / "text" / "help.zh.ts"
KEY = re.compile(r"^  (?:'((?:[^'\\]|\\.)*)'|\"([^\"]*)\"):", re.MULTILINE)


def list_help_texts() -> set[str]:
    texts = {setting.help for setting in DECLARED.values()}
    for name in registry.list_names():
        driver = registry.load(name)
        items = [*driver.Options.list_form_items(), *list_common_items(driver.config)]
        texts |= {item.help for item in items} | {driver.config.alert.rpartition("|")[2]}
    return texts


def test_every_translated_help_text_is_one_of_the_service() -> None:
    keys = {(single or double).replace("\\'", "'") for single, double in KEY.findall(TRANSLATIONS.read_text())}
    assert keys and keys - list_help_texts() == set()
