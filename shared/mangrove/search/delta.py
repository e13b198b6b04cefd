"""Changes since the segments were written, as rows of the tables of the database: statements that apply them.

The tables have for each base (one state of the segments of one storage, under a number of its own):

    folders       folders that are not, or not any more, where the segments have them. `id`: of the folder of the
                  segments whose names it has, NULL for none
    names         names in these folders, by their number, and the id of the user who changed a file last, if known
    hidden        folders of the segments that do not count there, with all below them
    hidden_names  names of the segments that do not count, by the present path of their folder
    known         users who made changes that are applied again, while that is done

Of a small storage the tables have everything, and segments are not read. To apply a change again, or one that the
segments tell of already, does no harm: a folder that moved is where it is to be, or is moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field

from mangrove.core.paths import TreePath
from mangrove.records.index_changes import ChangeKind, IndexChange, IndexedName
from mangrove.search.calls import Statement
from mangrove.search.columns import TIME_CONDITION, is_same_time, make_columns
from mangrove.search.names import encode_name
from mangrove.search.statements import find_unhidden

_WITHIN = "(path = ? OR starts_with(path, ?))"
_WITHIN_ANY = "EXISTS (FROM (SELECT unnest(?::VARCHAR[]) AS gone) WHERE {0} = gone OR starts_with({0}, gone || '/'))"
_DROP_NAMES = f"""
DELETE FROM names WHERE base = ? AND folder IN (
    SELECT number FROM folders WHERE base = ? AND {_WITHIN_ANY.format("path")}
)
"""
_DROP_FOLDERS = f"DELETE FROM folders WHERE base = ? AND {_WITHIN_ANY.format('path')}"
_DROP_HIDDEN_NAMES = f"DELETE FROM hidden_names WHERE base = ? AND {_WITHIN_ANY.format('folder')}"
_HIDE = """
INSERT INTO hidden SELECT ?, gone FROM (SELECT unnest(?::VARCHAR[]) AS gone)
WHERE gone IN (SELECT path FROM read_parquet(?)) AND gone NOT IN (SELECT path FROM hidden WHERE base = ?)
"""
_REPLACE_NAMES = """
DELETE FROM names WHERE base = ? AND (folder, coalesce(name, folded)) IN (
    SELECT number, replaced FROM folders
    JOIN (SELECT unnest(?::VARCHAR[]) AS path, unnest(?::VARCHAR[]) AS replaced) USING (path) WHERE base = ?
)
"""
_HIDE_NAMES = "INSERT INTO hidden_names SELECT ?, unnest(?::VARCHAR[]), unnest(?::VARCHAR[])"
_MAKE_FOLDERS = """
INSERT INTO folders SELECT ?, nextval('numbers'), NULL, made FROM (
    SELECT unnest(?::VARCHAR[]) AS made EXCEPT SELECT path FROM folders WHERE base = ?
)
"""
_ADD_NAMES = """
INSERT INTO names SELECT ?, number, name, folded, is_dir, new.size, new.modified, {} FROM (
    SELECT unnest(?::VARCHAR[]) AS path, unnest(?::VARCHAR[]) AS name, unnest(?::VARCHAR[]) AS folded,
    unnest(?::BOOLEAN[]) AS is_dir, unnest(?::BIGINT[]) AS size, unnest(?::DOUBLE[]) AS modified,
    unnest(?::BIGINT[]) AS changed_by
) AS new JOIN (SELECT path, min(number) AS number FROM folders WHERE base = ? GROUP BY path) USING (path) {}
"""
_ADD_NEW_NAMES = _ADD_NAMES.format("changed_by", "")
_ADD_KNOWN_NAMES = _ADD_NAMES.format(
    "coalesce(new.changed_by, known.changed_by)",
    "LEFT JOIN known ON known.path = new.path AND known_name = coalesce(name, folded) "
    "AND known.size IS NOT DISTINCT FROM new.size AND " + TIME_CONDITION,
)
_FIND_KNOWN = """
INSERT INTO known SELECT path, coalesce(name, folded), size, modified, changed_by FROM names
JOIN folders ON folders.base = names.base AND number = folder
JOIN (SELECT unnest(?::VARCHAR[]) AS path, unnest(?::VARCHAR[]) AS repeated) USING (path)
WHERE names.base = ? AND changed_by IS NOT NULL AND coalesce(name, folded) = repeated
"""
_CHECK_FREE = "INSERT INTO is_free SELECT NOT EXISTS (FROM folders WHERE base = ? AND path = ?)"
_CHECK_FREE_IN_SEGMENTS = (
    "UPDATE is_free SET value = value AND NOT EXISTS (SELECT 1 FROM read_parquet(?) AS folders WHERE path = ? AND {})"
)
_FREE = "(FROM is_free)"
_MOVE_FOLDERS = f"UPDATE folders SET path = ? || substr(path, ?) WHERE base = ? AND {_WITHIN} AND {_FREE}"
_MOVE_HIDDEN_NAMES = f"""
UPDATE hidden_names SET folder = ? || substr(folder, ?)
WHERE base = ? AND {_WITHIN.replace("path", "folder")} AND {_FREE}
"""
_TAKE_FROM_SEGMENTS = f"""
INSERT INTO folders SELECT ?, nextval('numbers'), id, ? || substr(path, ?) FROM read_parquet(?) AS folders
WHERE {_WITHIN} AND {{}} AND {_FREE}
"""
_COPY_FOLDERS = f"""
INSERT INTO copied SELECT number, nextval('numbers'), id, ? || substr(path, ?) FROM folders
WHERE base = ? AND {_WITHIN} AND {_FREE}
"""
_ADD_COPIED_FOLDERS = "INSERT INTO folders SELECT ?, new, id, path FROM copied"
_ADD_COPIED_NAMES = """
INSERT INTO names SELECT ?, new, name, folded, is_dir, size, modified, changed_by FROM names JOIN copied ON folder = old
WHERE base = ?
"""
_COPY_HIDDEN_NAMES = f"""
INSERT INTO hidden_names SELECT ?, ? || substr(folder, ?), name FROM hidden_names
WHERE base = ? AND {_WITHIN.replace("path", "folder")} AND {_FREE}
"""
_DROP_BASE = [f"DELETE FROM {table} WHERE base = ?" for table in ("folders", "names", "hidden", "hidden_names")]
MAX_TOUCHED_FOLDERS = 20_000  # with those above them; some megabytes


def join_path(folder: str, name: str) -> str:
    """Return the path of an entry, also for a name that no path of the service can have."""
    return f"/{name}" if folder == "/" else f"{folder}/{name}"


@dataclass(slots=True)
class _Names:
    """The result of many changes of names, by folder."""

    present: dict[str, dict[str, IndexedName]] = field(default_factory=dict)
    replaced: dict[str, set[str]] = field(default_factory=dict)
    gone: dict[str, None] = field(default_factory=dict)  # paths

    def add(self, folder: str, entries: Iterable[IndexedName], removed: Iterable[str]) -> None:
        """Apply a change of the names in a folder."""
        paths = {join_path(folder, name): name for name in removed}
        self._drop_below(paths.keys())
        present, replaced = self.present.setdefault(folder, {}), self.replaced.setdefault(folder, set())
        for path, name in paths.items():
            present.pop(name, None)
            self.gone[path] = None
            replaced.add(name)
        for entry in entries:
            present[entry.name] = _keep_changer(present.get(entry.name), entry)
            replaced.add(entry.name)

    def _drop_below(self, paths: Set[str]) -> None:
        """Drop the content of removed folders."""
        for known in list(self.replaced) if paths else ():
            if not paths.isdisjoint(TreePath(known).ancestors()):
                del self.present[known], self.replaced[known]


def _keep_changer(known: IndexedName | None, entry: IndexedName) -> IndexedName:
    """Return an entry with the user who changed it if another source reports the same change again without a user."""
    if known is None or entry.changed_by is not None or known[:3] != entry[:3]:
        return entry
    is_repeated = is_same_time(known.modified, entry.modified)
    return entry._replace(changed_by=known.changed_by) if is_repeated else entry


@dataclass(slots=True)
class TouchedFolders:
    """The folders of one base that the tables may have rows for: changes of others delete nothing.

    `paths`: with the folders above them. `are_known`: False if it may be any folder.
    """

    are_known: bool = False
    paths: set[str] = field(default_factory=set)

    def select(self, paths: Iterable[str]) -> list[str]:
        """Return those of the paths at or below which there may be rows."""
        return [path for path in paths if not self.are_known or path in self.paths]

    def add(self, folder: str) -> None:
        """Add a folder for which rows are inserted."""
        while self.are_known and folder not in self.paths:
            self.paths.add(folder)
            folder = folder.rpartition("/")[0] or "/"
        if len(self.paths) > MAX_TOUCHED_FOLDERS:
            self.forget()

    def forget(self) -> None:
        """Expect rows for any folder."""
        self.are_known = False
        self.paths.clear()


def apply_changes(
    base: int, folder_files: Sequence[str], changes: Iterable[IndexChange], touched: TouchedFolders | None = None
) -> list[Statement]:
    """Return the statements that apply changes of one storage, in their order.

    `folder_files`: those of its segments; none if the tables have everything. `touched` is brought up to date.
    """
    statements: list[Statement] = []
    touched = touched or TouchedFolders()
    names = _Names()
    for change in changes:
        if change.kind is ChangeKind.NAMES:
            names.add(change.path, change.entries, change.removed)
        elif change.kind in (ChangeKind.MOVE, ChangeKind.COPY):
            statements += _apply_names(base, folder_files, names, touched)
            touched.forget()
            transfer = _Transfer(base, folder_files, change)
            statements += transfer.move() if change.kind is ChangeKind.MOVE else transfer.copy()
            names = _Names()
            if change.kind is ChangeKind.MOVE:
                names.add(TreePath(change.path).parent, (), (TreePath(change.path).name,))
            names.add(TreePath(change.target).parent, change.entries, ())
            statements += _apply_names(base, folder_files, names, touched)
            names = _Names()
    return statements + _apply_names(base, folder_files, names, touched)


def _apply_names(base: int, folder_files: Sequence[str], names: _Names, touched: TouchedFolders) -> list[Statement]:
    statements = _find_known(base, names)
    if gone := [encode_name(path) for path in touched.select(names.gone)]:
        statements += [(_DROP_NAMES, (base, base, gone)), (_DROP_FOLDERS, (base, gone))]
        if folder_files:
            statements.append((_DROP_HIDDEN_NAMES, (base, gone)))
    if names.gone and folder_files:
        statements.append((_HIDE, (base, [encode_name(path) for path in names.gone], folder_files, base)))
    if present := touched.select(names.replaced):
        statements.append((_REPLACE_NAMES, (base, *_list_replaced(names, present), base)))
    if names.replaced and folder_files:
        statements.append((_HIDE_NAMES, (base, *_list_replaced(names, names.replaced))))
    for folder in names.replaced:
        touched.add(folder)
    return statements + _add_names(base, names, touched)


def _list_replaced(names: _Names, folders: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the replaced names in these folders as two columns, their folders and the names."""
    pairs = [(folder, name) for folder in folders for name in names.replaced[folder]]
    return [encode_name(folder) for folder, _ in pairs], [encode_name(name) for _, name in pairs]


def _find_repeated(names: _Names) -> list[tuple[str, str]]:
    """Return the folders and names of files for which a change has no user: it may be reported again."""
    return [
        (encode_name(folder), encode_name(entry.name))
        for folder, by_name in names.present.items()
        for entry in by_name.values()
        if entry.changed_by is None and not entry.is_dir
    ]


def _find_known(base: int, names: _Names) -> list[Statement]:
    """Return the statements that look up who made the changes that may be reported again."""
    repeated = _find_repeated(names)
    if not repeated:
        return []
    folders, repeated_names = [folder for folder, _ in repeated], [name for _, name in repeated]
    return [("DELETE FROM known", ()), (_FIND_KNOWN, (folders, repeated_names, base))]


def _add_names(base: int, names: _Names, touched: TouchedFolders) -> list[Statement]:
    entries = [(folder, entry) for folder, by_name in names.present.items() for entry in by_name.values()]
    if not entries:
        return []
    made = list(dict.fromkeys(folder for folder, _ in entries))
    made += [join_path(folder, entry.name) for folder, entry in entries if entry.is_dir]
    for folder in made:
        touched.add(folder)
    rows = make_columns([entry for _, entry in entries])
    columns = (rows.names, rows.folded, rows.is_dir, rows.sizes, rows.modified, rows.changed_by)
    paths = [encode_name(folder) for folder, _ in entries]
    text = _ADD_KNOWN_NAMES if _find_repeated(names) else _ADD_NEW_NAMES
    return [
        (_MAKE_FOLDERS, (base, [encode_name(path) for path in made], base)),
        (text, (base, paths, *columns, base)),
    ]


class _Transfer:
    """Move the content of a folder to another one, unless the tables or segments already have that one."""

    def __init__(self, base: int, folder_files: Sequence[str], change: IndexChange) -> None:
        source, target = encode_name(change.path), encode_name(change.target)
        self._base, self._files = base, folder_files
        self._target = target
        self._within = (source, f"{source}/")
        self._to = (target, len(source) + 1)

    def _check(self) -> list[Statement]:
        statements: list[Statement] = [
            ("DELETE FROM is_free", ()),
            ("DELETE FROM copied", ()),
            (_CHECK_FREE, (self._base, self._target)),
        ]
        if self._files:
            unhidden = find_unhidden(self._base)
            text = _CHECK_FREE_IN_SEGMENTS.format(unhidden.text)
            statements.append((text, (self._files, self._target, *unhidden.parameters)))
        return statements

    def _take(self) -> list[Statement]:
        unhidden = find_unhidden(self._base)
        text = _TAKE_FROM_SEGMENTS.format(unhidden.text)
        return [(text, (self._base, *self._to, self._files, *self._within, *unhidden.parameters))]

    def move(self) -> list[Statement]:
        """Return the statements for a folder that moved."""
        statements = [*self._check(), (_MOVE_FOLDERS, (*self._to, self._base, *self._within))]
        if self._files:
            statements.append((_MOVE_HIDDEN_NAMES, (*self._to, self._base, *self._within)))
            statements += self._take()
        return statements

    def copy(self) -> list[Statement]:
        """Return the statements for a folder that was copied."""
        statements = [
            *self._check(),
            (_COPY_FOLDERS, (*self._to, self._base, *self._within)),
            (_ADD_COPIED_FOLDERS, (self._base,)),
            (_ADD_COPIED_NAMES, (self._base, self._base)),
        ]
        if self._files:
            statements.append((_COPY_HIDDEN_NAMES, (self._base, *self._to, self._base, *self._within)))
            statements += self._take()
        return statements


def drop_base(base: int) -> list[Statement]:
    """Return the statements that drop all rows of a base."""
    return [(text, (base,)) for text in _DROP_BASE]
