"""Check that each setting and each option of a driver is read by code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from deployment.checks.project import ROOT, Project, Source, Violation

DECLARATIONS = "shared/mangrove/configuration/declared/"
PAGE = "page/src"
TRASH_PACKAGE = "mangrove.tree.trash"  # this module reads the options of all drivers with a trash


def settings_have_an_effect(project: Project) -> Iterator[Violation]:
    """The service or the page reads each setting, unless an attempt to save it reports that the feature is missing."""
    from mangrove.configuration.values import DECLARED

    words = read_words(source for source in project.product if not source.path.startswith(DECLARATIONS))
    words |= read_page_words(ROOT / PAGE)
    for key, setting in DECLARED.items():
        if not setting.absent and key not in words and not project.allows("settings_have_an_effect", key):
            yield Violation(DECLARATIONS, f"nothing reads the setting {key}")


def driver_options_have_an_effect(project: Project) -> Iterator[Violation]:
    """A driver reads each of its options, or the trash does."""
    from mangrove.drivers import registry

    for name in registry.list_names():
        driver = registry.load(name)
        package = driver.__module__.rpartition(".")[0]
        words = read_words(source for source in project.product if source.module.startswith((package, TRASH_PACKAGE)))
        for item in driver.Options.list_form_items():
            option = f"{name}.{item.name}"
            if item.name not in words and not project.allows("driver_options_have_an_effect", option):
                yield Violation(f"{package.replace('.', '/')}", f"nothing reads the option {option}")


def read_words(sources: Iterator[Source]) -> set[str]:
    """Return the names of all attributes that are read, and all words in strings that are not docstrings."""
    words: set[str] = set()
    for source in sources:
        for node in source.nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                words.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                words |= set(re.findall(r"\w+", node.value))
    return words


def read_page_words(folder: Path) -> set[str]:
    """Return the words of the page; a key of a setting is a property or a string there."""
    files = [path for path in folder.rglob("*") if path.suffix in (".ts", ".svelte") and "/text/" not in str(path)]
    return {word for path in files for word in re.findall(r"\w+", path.read_text())}
