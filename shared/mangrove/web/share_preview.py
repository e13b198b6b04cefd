"""Open Graph properties in the head of the page of a share link, which other sites show beside its address.

A share link with a password has none, and neither has one that does not exist or has ended: all three look the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from typing import Any

from starlette.requests import Request

from mangrove import configuration
from mangrove.core.paths import TreePath
from mangrove.core.problems import Problem
from mangrove.identity.rights import Right
from mangrove.tree.listing.objects import describe_share
from mangrove.tree.sharing import visits
from mangrove.tree.sharing.shared_path import PREFIX, SharedPath, split
from mangrove.web.address import find_client_address, find_site_address

MAX_SUMMARY_LENGTH = 500  # characters
MAX_SUMMARY_NAMES = 20  # names of shared files and folders

_LOOP = re.compile(r"\{\{#each files\}\}(.*?)\{\{/each\}\}", re.DOTALL)
_CONDITION = re.compile(r"\{\{#if (\w+)\}\}(.*?)\{\{/if\}\}", re.DOTALL)
_VALUE = re.compile(r"\{\{(\w+)\}\}")


async def make_meta_tags(request: Request) -> str:
    """Return the elements for the head of the page of a share link; "" if nothing of it may be told.

    The request is no visit of the share link.
    """
    source = await find_client_address(request)
    try:
        id, _ = split(TreePath(request.scope["path"]))
        access = await visits.open_shared(PREFIX / id, "", Right.READ, source, is_visit=False)
    except Problem:
        return ""
    share = access.share
    if share is None or await visits.is_used_up(share.link):
        return ""
    address = await find_site_address(request)
    settings = (await configuration.get()).settings
    names = list(share.roots)[:MAX_SUMMARY_NAMES] if share.roots else [share.name]
    values = describe(share, names, address)
    properties = {
        "og:type": "website",
        "og:site_name": settings["site_title"],
        "og:title": ", ".join(names),
        "og:description": fill_summary(settings["share_summary_content"], values),
        "og:url": f"{address}{PREFIX}/{share.link.id}",
    }
    return "".join(f'<meta property="{name}" content="{escape(text)}" />' for name, text in properties.items() if text)


def describe(share: SharedPath, names: list[str], address: str) -> dict[str, Any]:
    """Return the values of the template of the summary. It has no password."""
    expires = describe_share(share)["expires"]
    return {
        "creator": share.creator,
        "files": names,
        "base_url": address,
        "id": share.link.id,
        "expires": str(expires) if expires else "",
    }


def fill_summary(template: str, values: Mapping[str, Any]) -> str:
    """Return a template of a summary with its values: `{{name}}`, `{{#each files}}…{{/each}}`, `{{#if name}}…{{/if}}`.

    What is no part of `values` is empty. A mark in a value is not replaced.
    """

    def repeat(match: re.Match[str]) -> str:
        return "".join(
            match[1].replace("{{this}}", f"{{{{files_{number}}}}}") for number in range(len(values["files"]))
        )

    texts = {name: value for name, value in values.items() if isinstance(value, str)}
    texts |= {f"files_{number}": name for number, name in enumerate(values["files"])}
    text = _CONDITION.sub(lambda match: match[2] if values.get(match[1]) else "", _LOOP.sub(repeat, template))
    return " ".join(_VALUE.sub(lambda match: texts.get(match[1], ""), text).split())[:MAX_SUMMARY_LENGTH]
