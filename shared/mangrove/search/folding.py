"""A new index, made of the older one and of the result of a walk or of changes.

The files are in the format of `search.writing`. Files of the older index that nothing affects stay unchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from mangrove.records.index_changes import IndexChange
from mangrove.search.calls import TABLES, Statement
from mangrove.search.columns import TIME_CONDITION, read_names
from mangrove.search.delta import apply_changes
from mangrove.search.index import search_index
from mangrove.search.names import encode_name
from mangrove.search.segments import Segments
from mangrove.search.statements import find_unhidden
from mangrove.search.writing import make_copy

KNOWN_SECONDS = 60.0
CHANGES_BASE = 1  # the base of the tables to which changes are applied
MIN_LARGE_FILE_ROWS = 500_000  # rows of a file that is not rewritten because of its size
MAX_SMALL_FILES = 8  # smaller files, allowed per index
MIN_COMPRESSED_ROWS = 2_000_000  # rows of an index that is optimised for size instead of speed
GROUPS_PER_FILE = 34  # per file: a million rows

_WALKED = "create table walked as select id, path from read_parquet(?)"
_LISTED = """
create table listed as
select distinct path as folder, coalesce(name, folded) as child
from read_parquet(?) join walked on folder = id where is_dir
"""
_STEPS = """
create or replace macro steps(files) as table
select id, '/' || array_to_string(parts[1 : depth - 1], '/') as folder, parts[depth] as child
from (
    select id, parts, unnest(range(1, len(parts) + 1)) as depth
    from (select id, string_split(path[2:], '/') as parts from read_parquet(files) where path <> '/')
)
"""  # each folder once for every folder above it
_GONE = """
create table gone as
select id from read_parquet(?) where path in (select path from walked)
union
select id from steps(?) as steps semi join walked on steps.folder = walked.path
anti join listed on steps.folder = listed.folder and steps.child = listed.child
"""
_NOT_KEPT = """
insert into gone select id from read_parquet(?)
where path not in (select unnest(?::varchar[]))
and id not in (select id from steps(?) as steps where folder in (select unnest(?::varchar[])))
"""
_ALL_GONE = "select distinct id from gone"
_COUNT = """
select filename, count(*), count(gone.id)
from read_parquet(?, filename = true) left join (select distinct id from gone) as gone on folder = gone.id
group by filename
"""
_COUNT_LEFT = """
select
    (select coalesce(max(id) + 1, 0) from read_parquet(?)),
    (select count(*) from read_parquet(?) as old anti join gone on old.id = gone.id)
"""
_FIND_CHANGED = """
create table changed as select (row_number() over () - 1)::uinteger as id, path from (
    select path from folders
    union
    select folder from hidden_names where folder in (select path from read_parquet(?))
)
"""
_CHANGED_NAMES = """
with shown as (
    select id, path from read_parquet(?) as folders where path in (select path from changed) and {}
    union all
    select id, path from folders where id is not null
)
select changed.id as folder, name, folded, is_dir, size, modified, changed_by from (
    select path, name, folded, is_dir, size, modified, changed_by from names join folders on number = folder
    union all
    select path, name, folded, is_dir, size, modified, changed_by from {} as stored join shown on id = folder
    where not exists (
        from hidden_names as h where h.folder = path and h.name = coalesce(stored.name, stored.folded)
    )
) join changed using (path)
"""
_COLUMNS = "name, folded, is_dir, size, modified, changed_by"
_LEFT_ROWS = f"""
select folder, {_COLUMNS} from {read_names()} as old anti join read_parquet(?) as gone on old.folder = gone.id
"""
_NEW_ROWS = f"select (folder + ?)::uinteger as folder, {_COLUMNS} from {read_names()}"
_NEW_ROWS_OF_KNOWN_CHANGERS = f"""
select (folder + ?)::uinteger as folder, name, folded, is_dir, new.size, new.modified, changed_by
from read_parquet(?) as new left join (
    select id, known_name, size, modified, changed_by from read_parquet(?) join read_parquet(?) using (path)
) as known
on id = folder and known_name = coalesce(name, folded)
and known.size is not distinct from new.size and {TIME_CONDITION}
"""
_CHANGERS = f"""
select path, coalesce(name, folded) as known_name, size, modified, changed_by
from {read_names()} join read_parquet(?) on folder = id
where changed_by is not null and path in (select path from read_parquet(?))
"""
_LEFT_FOLDERS = "select * from read_parquet(?) as old anti join read_parquet(?) as gone on old.id = gone.id"
_NEW_FOLDERS = "select * replace ((id + ?)::uinteger as id) from read_parquet(?)"


async def find_known_folders(segments: Segments, paths: Collection[str]) -> set[str]:
    """Return the paths (inside the storage) for which the index has a folder."""
    if not paths or not segments.folders:
        return set()
    stored = {encode_name(path): path for path in paths}
    known_paths = await search_index().database.run(
        "select path from read_parquet(?) where path in (select unnest(?::varchar[]))",
        [_list_paths(segments.folders), list(stored)],
        seconds=KNOWN_SECONDS,
    )
    return {stored[path] for (path,) in known_paths}


@dataclass(frozen=True, slots=True)
class Fresh:
    """The result of a walk: files of FolderWriter with the folders that were read, and of SegmentWriter with their
    content. Ids count from 0.

    `count` rows of names, `folder_count` of folders. `shifts`: the number to add to the ids in each of the files; empty
    for none.
    """

    folders: Sequence[Path]
    names: Sequence[Path]
    count: int
    folder_count: int
    shifts: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Folded:
    """The future index. `fresh`: new files that have to be stored; the rest as in IndexManifest."""

    fresh: tuple[Path, ...]
    names: list[str]
    folders: list[str]
    count: int
    folder_count: int

    @property
    def files(self) -> list[str]:
        """The names of all files."""
        return self.names + self.folders


def open_folded(base: Segments, folded: Folded, folder: Path) -> Segments:
    """Return the index that replaces `base`. Its new files are in `folder`."""
    paths = {path.name: path for path in (*base.names, *base.folders, *folded.fresh)}
    names, folders = ([paths[name] for name in names] for names in (folded.names, folded.folders))
    manifest = replace(
        base.manifest, names=folded.names, folders=folded.folders, count=folded.count, folder_count=folded.folder_count
    )
    return Segments(base.storage_id, manifest, tuple(names), tuple(folders))


async def fold_changes(
    base: Segments | None,
    folder: Path,
    name: str,
    fresh: Fresh,
    kept_paths: Collection[str] | None = None,
    earlier: Segments | None = None,
) -> Folded:
    """Combine the result of a walk with the older index. New files are `<name>-*.parquet` in `folder`; `name` must be
    unique.

    The rows of `base` are dropped for folders that were read, and for all folders at or below one that the fresh rows
    of its parent do not list any more.

    `kept_paths`: paths at or below which `base` stays valid, in a rebuild the folders that could not be listed; None in
    an update, where all of it stays valid. Raise DamagedSegment.

    `earlier`: the index that knows who changed the files which the walk found unchanged.
    """
    fold = _Fold(folder, name, fresh)
    if earlier is not None:
        await fold.find_changers(earlier)
    if base is None or not base.names or not base.folders or (kept_paths is not None and not kept_paths):
        return await fold.join()
    await fold.begin(base, kept_paths)
    return await fold.finish(base)


class _Fold:
    """One call of `fold_changes`. Unaffected files stay unchanged."""

    def __init__(self, folder: Path, name: str, fresh: Fresh) -> None:
        self._folder = folder
        self._name = name
        self._fresh = fresh
        self._gone = str(folder / f"{name}-gone.parquet")
        self._first_id = 0  # of the new folders
        self._changers: str | None = None  # the file with the users of the earlier index, if it knows any
        self._touched: list[Path] = []
        self._untouched: list[Path] = []
        self._count = fresh.count
        self._folder_count = fresh.folder_count

    async def find_changers(self, earlier: Segments) -> None:
        """Find the users who changed files in the folders that were read."""
        if not earlier.names or not earlier.folders:
            return
        file = str(self._folder / f"{self._name}-changers.parquet")
        names, folders = _list_paths(earlier.names), _list_paths(earlier.folders)
        rows = make_copy(_CHANGERS), [names, folders, _list_paths(self._fresh.folders), file]
        [(count,)], *_ = await search_index().database.write([rows])
        self._changers = file if count else None

    async def join(self) -> Folded:
        """Return the files as they are, or merged if there are many. Nothing of an older index is valid."""
        chunks, walked = self._fresh.names, self._fresh.folders
        names, folders, copies = list(chunks), list(walked), []
        has_shifts = any(self._fresh.shifts)
        is_long = len(chunks) > MAX_SMALL_FILES or self._count > MIN_COMPRESSED_ROWS
        if is_long or has_shifts or self._changers:
            copies.append(self._plan_copy("names", *self._shift_names()))
        if len(walked) > MAX_SMALL_FILES or has_shifts:
            copies.append(self._plan_copy("folders", *self._shift(_NEW_FOLDERS, walked)))
        if copies:
            await search_index().database.write(copies)
        names = self._take_files("names") or names
        folders = self._take_files("folders") or folders
        return self._describe(names, folders, {*names, *folders} - {*chunks, *walked})

    async def begin(self, base: Segments, kept_paths: Collection[str] | None) -> None:
        """Find the folders of `base` that are dropped, and the files that contain them."""
        folders = _list_paths(base.folders)
        statements: list[Statement] = [
            (_WALKED, [_list_paths(self._fresh.folders)]),
            (_LISTED, [_list_paths(self._fresh.names)]),
            (_STEPS, []),
            (_GONE, [folders, folders]),
            *([] if kept_paths is None else _keep_only(folders, [encode_name(path) for path in kept_paths])),
            (make_copy(_ALL_GONE), [self._gone]),
            (_COUNT_LEFT, [folders, folders]),
            (_COUNT, [_list_paths(base.names)]),
        ]
        *_, [(self._first_id, left)], counts = await search_index().database.write(statements)
        self._folder_count += left
        self._choose(base, {path: (count, gone) for path, count, gone in counts})

    def _choose(self, base: Segments, counts: dict[str, tuple[int, int]]) -> None:
        small = [path for path in base.names if counts.get(str(path), (0, 0))[0] < MIN_LARGE_FILE_ROWS]
        for path in base.names:
            count, gone = counts.get(str(path), (0, 0))
            self._count += count - gone
            is_touched = gone > 0 or (len(small) >= MAX_SMALL_FILES and count < MIN_LARGE_FILE_ROWS)
            (self._touched if is_touched else self._untouched).append(path)

    async def finish(self, base: Segments) -> Folded:
        """Write the remaining rows of the affected files together with the new rows."""
        rows = self._shift_names()
        if self._touched:
            rows.insert(0, (_LEFT_ROWS, [_list_paths(self._touched), self._gone]))
        left = (_LEFT_FOLDERS, [_list_paths(base.folders), self._gone])
        new = self._shift(_NEW_FOLDERS, self._fresh.folders)
        await search_index().database.write([self._plan_copy("names", *rows), self._plan_copy("folders", left, *new)])
        names, folders = self._take_files("names"), self._take_files("folders")
        return self._describe([*self._untouched, *names], folders, {*names, *folders})

    def _shift_names(self) -> list[Statement]:
        """Return the names that were read, with shifted ids and with the users of those that are unchanged."""
        if self._changers is None:
            return self._shift(_NEW_ROWS, self._fresh.names)
        shifts = self._fresh.shifts or [0] * len(self._fresh.names)
        files = zip(shifts, self._fresh.names, self._fresh.folders, strict=True)
        return [
            (_NEW_ROWS_OF_KNOWN_CHANGERS, [self._first_id + shift, str(names), self._changers, str(folders)])
            for shift, names, folders in files
        ]

    def _shift(self, rows: str, files: Sequence[Path]) -> list[Statement]:
        """Return the rows of files in their order, with shifted ids."""
        groups = groupby(zip(self._fresh.shifts or [0] * len(files), files, strict=True), key=lambda pair: pair[0])
        return [(rows, [self._first_id + shift, _list_paths(file for _, file in pairs)]) for shift, pairs in groups]

    def _plan_copy(self, kind: str, *parts: Statement) -> Statement:
        """Return a statement that writes the rows of all parts, a million per file."""
        target = self._folder / f"{self._name}-{kind}"
        target.mkdir()
        rows = " union all ".join(text for text, _ in parts)
        codec = "zstd" if self._count > MIN_COMPRESSED_ROWS else "uncompressed"
        copy = make_copy(rows, codec, f", row_groups_per_file {GROUPS_PER_FILE}")
        return copy, [*(value for _, values in parts for value in values), str(target)]

    def _take_files(self, kind: str) -> list[Path]:
        """Return the files that such a statement wrote, each under a unique name."""
        target = self._folder / f"{self._name}-{kind}"
        made = sorted(target.iterdir(), key=lambda path: (len(path.name), path.name)) if target.is_dir() else []
        return [path.rename(self._folder / f"{target.name}-{number}.parquet") for number, path in enumerate(made)]

    def _describe(self, names: Sequence[Path], folders: Sequence[Path], fresh: Collection[Path]) -> Folded:
        return Folded(
            tuple(sorted(fresh)),
            [path.name for path in names],
            [path.name for path in folders],
            self._count,
            self._folder_count,
        )


async def merge_changes(base: Segments, folder: Path, name: str, changes: Sequence[IndexChange]) -> Folded:
    """Apply changes to the older index, as `fold_changes` applies a walk: folders in which something changed are
    rewritten.
    """
    files, names = _list_paths(base.folders), _list_paths(base.names)
    folders_file, names_file = folder / f"{name}-changed-folders.parquet", folder / f"{name}-changed-names.parquet"
    unhidden = find_unhidden(CHANGES_BASE)
    *_, [(folder_count,)], _, _, [(count,)] = await search_index().database.write(
        [
            (TABLES, []),
            *apply_changes(CHANGES_BASE, files, changes),
            (_FIND_CHANGED, [files]),
            ("select count(*) from changed", []),
            (make_copy("select id, path from changed"), [str(folders_file)]),
            (
                make_copy(_CHANGED_NAMES.format(unhidden.text, read_names())),
                [files, *unhidden.parameters, names, str(names_file)],
            ),
            ("select count(*) from read_parquet(?)", [str(names_file)]),
        ]
    )
    fresh = Fresh([folders_file], [names_file], count, folder_count)
    return await fold_changes(base, folder, name, fresh)


def _keep_only(folders: Sequence[str], kept_paths: Sequence[str]) -> list[Statement]:
    return [] if "/" in kept_paths else [(_NOT_KEPT, [folders, kept_paths, folders, kept_paths])]


def _list_paths(files: Iterable[Path]) -> list[str]:
    return [str(path) for path in files]
