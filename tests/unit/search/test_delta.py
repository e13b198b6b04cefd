"""Changes as rows of the tables: statements that are left out would have deleted nothing."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pytest

from mangrove.core.paths import TreePath
from mangrove.records.index_changes import ChangeKind, IndexChange, IndexedName
from mangrove.search import delta
from mangrove.search.calls import TABLES
from mangrove.search.delta import TouchedFolders, apply_changes, join_path

FOLDERS = ["/", "/a", "/a/b", "/a/b/c", "/d", "/e\x1a"]
NAMES = ["a", "b", "c", "d", "x.txt", "\udcff"]
READ_CONTENT = """
SELECT 'name', path, id, name, folded, is_dir FROM folders LEFT JOIN names ON folder = number WHERE folders.base = $base
UNION ALL SELECT 'hidden', path, NULL, NULL, NULL, NULL FROM hidden WHERE base = $base
UNION ALL SELECT 'hidden name', folder, NULL, name, NULL, NULL FROM hidden_names WHERE base = $base
ORDER BY ALL
"""


class Tables:
    """The tables, and a file of the folders that the segments have."""

    def __init__(self, folder: Path) -> None:
        self.connection = duckdb.connect()
        self.connection.execute(TABLES)
        self.files = [str(folder / "folders.parquet")]
        self.connection.execute("CREATE TABLE stored(id uinteger, path varchar)")
        self.connection.executemany("INSERT INTO stored VALUES (?, ?)", list(enumerate(FOLDERS[:4])))
        self.connection.execute("COPY stored TO ? (FORMAT parquet)", self.files)

    def apply(self, base: int, change: IndexChange, touched: TouchedFolders | None = None) -> int:
        """Return the number of statements."""
        statements = apply_changes(base, self.files, [change], touched)
        for statement in statements:
            self.connection.execute(*statement)
        return len(statements)

    def read(self, base: int) -> list[Any]:
        return self.connection.execute(READ_CONTENT, {"base": base}).fetchall()


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(tmp_path)


def change_names(path: str, names: list[str], removed: tuple[str, ...] = (), *, is_dir: bool = False) -> IndexChange:
    entries = tuple(IndexedName(name, is_dir, 1, 1.0, None if is_dir else 1) for name in names)
    return IndexChange(1, ChangeKind.NAMES, path, entries=entries, removed=removed)


def make_change(dice: random.Random, *, has_moves: bool) -> IndexChange:
    path = dice.choice(FOLDERS)
    if has_moves and dice.random() < 0.3:
        source, target = dice.choice(FOLDERS[1:4]), TreePath(join_path("/d", dice.choice(["a", "b", "c"])))
        return IndexChange(1, ChangeKind.MOVE, source, target=target, entries=(IndexedName(target.name, True, 0, 1.0),))
    entries, removed = dice.sample(NAMES, dice.randint(0, 2)), tuple(dice.sample(NAMES, dice.randint(0, 2)))
    return change_names(path, entries, removed, is_dir=dice.random() < 0.5)


@pytest.mark.parametrize("has_moves", [False, True])
@pytest.mark.parametrize("largest", [4, 1000])
def test_known_folders_give_the_same_rows(
    tables: Tables, monkeypatch: pytest.MonkeyPatch, has_moves: bool, largest: int
) -> None:
    monkeypatch.setattr(delta, "MAX_TOUCHED_FOLDERS", largest)
    dice, touched = random.Random(largest), TouchedFolders(are_known=True)
    for _ in range(30):
        change = make_change(dice, has_moves=has_moves)
        assert tables.apply(1, change, touched) <= tables.apply(2, change)
        assert tables.read(1) == tables.read(2)


def test_names_in_untouched_folders_are_not_looked_up(tables: Tables) -> None:
    touched = TouchedFolders(are_known=True)
    count = tables.apply(1, change_names("/a", ["x.txt"]), touched)
    assert tables.apply(1, change_names("/a/b", ["x.txt"]), touched) == count
    assert tables.apply(1, change_names("/a", ["x.txt"]), touched) == count + 1
