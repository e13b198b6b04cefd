"""The reference page of the settings, from their declarations."""

from __future__ import annotations

from typing import Any

from deployment.generate import Files
from mangrove.configuration.setting import Flag, Setting
from mangrove.configuration.values import GROUPS

MAX_DEFAULT_LETTERS = 60  # of a default in the table
VISIBLE = {Flag.PUBLIC: "everybody", Flag.PRIVATE: "administrators", Flag.READONLY: "everybody, read-only"}
HEAD = """# Settings

An administrator changes settings in the page under *Manage*, or with `POST /api/admin/setting/save`.
A value is a text: `true` or `false` for a switch, digits for a number. This page is derived from the code.
"""


def generate_reference() -> Files:
    """Derive `docs/reference/settings.md`: a table for each group."""
    return {"docs/reference/settings.md": HEAD + "".join(map(_render_group, GROUPS))}


def _render_group(group: type[Any]) -> str:
    rows = [_render(setting) for setting in vars(group).values() if isinstance(setting, Setting)]
    head = "| setting | value | default | shown to | purpose |\n|---|---|---|---|---|\n"
    return f"\n## {str(group.__doc__).rstrip('.')}\n\n{head}{''.join(rows)}"


def _render(setting: Setting[Any]) -> str:
    kind = setting.options.replace(",", ", ") or f"{setting.type} {setting.bounds}".strip()
    cells = [f"`{setting.key}`", kind, _render_default(setting), VISIBLE[setting.flag], setting.help]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _render_default(setting: Setting[Any]) -> str:
    if setting.key == "version":
        return "the version"
    text = setting.default.replace("\n", "↵")
    if len(text) > MAX_DEFAULT_LETTERS:
        text = text[:MAX_DEFAULT_LETTERS] + "…"
    return f"`{text}`" if text else ""
