"""Files that are derived from the code: `make generate` writes them, `make check` fails when one is not up to date.

A generator returns the files that it derives, by path from the root of the checkout. Add one to `registry.GENERATORS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

Files = Mapping[str, str]
Generator = Callable[[], Files]


def list_changes(generators: Iterable[Generator], root: Path = ROOT) -> Iterator[tuple[Path, str]]:
    """Yield the files that are not up to date, with the content that they should have."""
    for generator in generators:
        for path, content in generator().items():
            file = root / path
            if not file.exists() or file.read_text() != content:
                yield file, content


def replace_between(path: str, start: str, end: str, content: str) -> Files:
    """Return a file whose part between the lines `start` and `end` is `content`; for files that people edit, too."""
    before, start_line, rest = (ROOT / path).read_text().partition(f"{start}\n")
    _, end_line, after = rest.partition(f"{end}\n")
    if not start_line or not end_line:
        raise ValueError(f"{path} has no lines {start} and {end}")
    return {path: f"{before}{start_line}{content}{end_line}{after}"}
