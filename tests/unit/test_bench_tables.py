"""Tables of the bench: what `--record` keeps in the reference."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import tables


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "performance.md"
    path.write_text("# Performance\n\nAn introduction.\n")
    monkeypatch.setattr(tables, "PAGE", path)
    return path


def make_table(title: str, value: str) -> tables.Table:
    table = tables.Table(title, "a machine", "work", "rate")
    table.add("ping", value)
    return table


def test_recorded_table_is_appended_with_its_date(page: Path) -> None:
    make_table("Clients", "1").record()
    text = page.read_text()
    assert text.startswith("# Performance\n\nAn introduction.\n\n## Clients\n\n20")
    assert text.endswith(". a machine.\n\n| work | rate |\n| --- | --- |\n| ping | 1 |\n")


def test_recorded_table_replaces_only_the_one_of_its_title(page: Path) -> None:
    for title, value in (("Clients", "1"), ("Clients of old", "2"), ("Clients", "3")):
        make_table(title, value).record()
    text = page.read_text()
    assert "| ping | 1 |" not in text
    assert text.count("## Clients\n") == 1
    assert text.index("| ping | 3 |") < text.index("## Clients of old") < text.index("| ping | 2 |")
