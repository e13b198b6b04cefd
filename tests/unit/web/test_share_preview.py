"""The summary of a share link that other sites show."""

from __future__ import annotations

import pytest

from mangrove.configuration.declared.access import SHARE_TEXT
from mangrove.web.share_preview import MAX_SUMMARY_LENGTH, fill_summary

VALUES = {"creator": "mia", "files": ["a.txt", "{{pwd}}"], "base_url": "https://h", "id": "abc", "expires": ""}


@pytest.mark.parametrize(
    ("template", "summary"),
    [
        (SHARE_TEXT, "mia shares a.txt {{pwd}} : https://h/@s/abc"),
        ("{{#if expires}}until {{expires}}{{/if}}{{#if pwd}}{{pwd}}{{/if}}x", "x"),
        ("{{#if creator}}by {{creator}}{{/if}}", "by mia"),
        ("{{unknown}} {{#each files}}[{{this}}]{{/each}}", "[a.txt][{{pwd}}]"),
        ("{{#each files}}", "{{#each files}}"),
        ("", ""),
    ],
)
def test_summary_has_the_values_and_no_password(template: str, summary: str) -> None:
    assert fill_summary(template, VALUES) == summary.strip()


def test_summary_is_bounded() -> None:
    assert len(fill_summary("x" * 10_000, VALUES)) == MAX_SUMMARY_LENGTH
