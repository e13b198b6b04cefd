"""The committed forms of all drivers, and the parts of the documentation about them: tables, list and menu."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from deployment.generate import ROOT, Files, replace_between
from mangrove.drivers import registry

FOLDER = "docs/storages"
OPTIONS_START = "<!-- options: derived by `make generate` -->"
OPTIONS_END = "<!-- end of options -->"
PAGES_START = "<!-- pages: derived by `make generate` -->"
PAGES_END = "<!-- end of pages -->"
MENU_START = "      # storages: derived by `make generate`"
MENU_END = "      # end of storages"
NEW_PAGE = f"# {{name}}\n\n{{summary}}\n\n## Options\n\n{OPTIONS_START}\n{OPTIONS_END}\n"
FIRST_SENTENCE = re.compile(r"\A# [^\n]*\n\n(.+?\.)(?:\s|\Z)", re.DOTALL)


def generate_forms() -> Files:
    """Derive the file with the forms of drivers, one item per line: clients know the forms, so reviews see changes."""
    first_names: dict[str, str] = {}  # of the driver that has these common items, as JSON
    lines: list[str] = []
    for name in registry.list_names():
        form = registry.build_template(name)
        first_name = first_names.setdefault(json.dumps(form["common"]), name)
        common = map(json.dumps, form["common"]) if first_name == name else [f"as {first_name}"]
        lines += [name, f"  config {json.dumps(form['config'])}", *(f"  common {item}" for item in common)]
        lines += [f"  option {json.dumps(item)}" for item in form["additional"]]
    return {"tests/contract/drivers/forms.txt": "\n".join(lines) + "\n"}


def generate_pages() -> Files:
    """Derive the option table of each driver; a driver without a page gets one."""
    return {path: _render_page(name, path) for name, path in _list_pages().items()}


def generate_list() -> Files:
    """Derive the table of the drivers, with the first sentence of each page."""
    rows = (f"| [{name}]({_get_file(name)}) | {_read_summary(name)} |\n" for name in registry.list_names())
    table = f"\n| driver | files |\n|---|---|\n{''.join(rows)}\n"
    return replace_between(f"{FOLDER}/index.md", PAGES_START, PAGES_END, table)


def generate_menu() -> Files:
    """Derive the part of the menu that leads to the pages."""
    lines = (f"      - {name}: storages/{_get_file(name)}\n" for name in registry.list_names())
    return replace_between("mkdocs.yml", MENU_START, MENU_END, "".join(lines))


def _list_pages() -> Mapping[str, str]:
    return {name: f"{FOLDER}/{_get_file(name)}" for name in registry.list_names()}


def _get_file(name: str) -> str:
    return f"{name.lower()}.md"


def _read_page(name: str) -> str:
    file = ROOT / FOLDER / _get_file(name)
    if file.exists():
        return file.read_text()
    summary = " ".join(str(registry.load(name).__doc__ or f"Storages of the kind {name}.").partition("\n\n")[0].split())
    return NEW_PAGE.format(name=name, summary=summary)


def _read_summary(name: str) -> str:
    match = FIRST_SENTENCE.match(_read_page(name))
    if match is None:
        raise ValueError(f"{FOLDER}/{_get_file(name)} does not begin with a title and a sentence")
    return " ".join(match[1].split())


def _render_page(name: str, path: str) -> str:
    before, start, rest = _read_page(name).partition(f"{OPTIONS_START}\n")
    _, end, after = rest.partition(f"{OPTIONS_END}\n")
    if not start or not end:
        raise ValueError(f"{path} has no lines {OPTIONS_START} and {OPTIONS_END}")
    items = registry.build_template(name)["additional"]
    head = "\n| option | value | default | required | help |\n|---|---|---|---|---|\n"
    return f"{before}{start}{head}{''.join(map(_render_option, items))}\n{end}{after}"


def _render_option(item: Mapping[str, Any]) -> str:
    value = item["options"].replace(",", ", ") or item["type"]
    default = f"`{item['default'].splitlines()[0]}`" if item["default"] else ""
    if "\n" in item["default"]:
        default += " …"
    cells = [f"`{item['name']}`", value, default, "yes" if item["required"] else "", " ".join(item["help"].split())]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"
