"""The documents name existing modules and paths, and each page can be reached by a link."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from deployment.checks.project import ROOT, Project, Source, Violation

FOLDER = "docs"
HOME = "docs/index.md"
MADE_BY_THE_BUILD = ("page/build.log", "page/dist")
TOP_FOLDERS = ("bench", "deployment", "docs", "events", "functions", "page", "requirements", "shared", "state_machines")
MODULE = re.compile(r"(?<![/\w])mangrove(?:\.\w+)+")
PATH = re.compile(rf"`((?:{'|'.join((*TOP_FOLDERS, 'tests'))})/[\w./-]*)`")
TITLE = re.compile(r'title="([^"]+)"')
LINK = re.compile(r"\]\(([^)#\s]+\.md)(?:#[^)]*)?\)")
CITATION = re.compile(r"\bdocs/[\w/-]+\.md")


def documents_name_what_exists(project: Project) -> Iterator[Violation]:
    """A module or a path in a document exists, unless the page explains how to add it."""
    for place, page, line in _iter_lines():
        new_files = TITLE.findall(page)
        new_modules = {_name_module(path) for path in new_files}
        for name in MODULE.findall(line):
            if not _is_module(project, name) and not any(f"{new}.".startswith(f"{name}.") for new in new_modules):
                yield Violation(place, f"there is no {name}")
        for path in PATH.findall(line):
            is_new = any(new.startswith(path.rstrip("/")) for new in new_files)
            if not (is_new or path in MADE_BY_THE_BUILD or (ROOT / path).exists()):
                yield Violation(place, f"there is no {path}")


def documents_are_linked(project: Project) -> Iterator[Violation]:
    """Each page is the target of a link on another page."""
    pages = _read_documents()
    linked = {
        (path.parent / target).resolve() for path, text in pages.items() for target in LINK.findall(text)
    }  # fmt: skip
    for path in pages:
        place = str(path.relative_to(ROOT))
        if place.startswith(f"{FOLDER}/") and place != HOME and path not in linked:
            yield Violation(place, "no page links to it")


def citations_are_pages(project: Project) -> Iterator[Violation]:
    """A document that the code cites exists."""
    for source in project.sources:
        for number, line in enumerate(source.text.splitlines(), 1):
            for path in CITATION.findall(line):
                if not (ROOT / path).exists() and not source.path.startswith("tests/"):
                    yield Violation(f"{source.path}:{number}", f"there is no {path}")


def _read_documents() -> Mapping[Path, str]:
    paths = [*ROOT.glob("*.md"), *(ROOT / FOLDER).rglob("*.md")]
    return {path: path.read_text() for path in sorted(paths)}


def _iter_lines() -> Iterator[tuple[str, str, str]]:
    """Yield each line of a document with its place and the text of its page."""
    for path, text in _read_documents().items():
        if path.name != "CHANGELOG.md":
            for number, line in enumerate(text.splitlines(), 1):
                yield f"{path.relative_to(ROOT)}:{number}", text, line


def _name_module(path: str) -> str:
    return path.removeprefix("shared/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _is_module(project: Project, name: str) -> bool:
    """Return True for a module, a package, or a name that a module uses."""
    if name in project.module_names:
        return True
    parent, _, last = name.rpartition(".")
    return any(source.module == parent and _has_word(source, last) for source in project.sources)


def _has_word(source: Source, word: str) -> bool:
    return re.search(rf"\b{word}\b", source.text) is not None
