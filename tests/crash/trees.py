"""Generated trees, and archives of them; the same for the same seed."""

from __future__ import annotations

import io
import tarfile
import tempfile
import zipfile
from random import Random

import py7zr

LARGE = (9 << 20, 26 << 20)  # bytes; from 8 MiB on a file is stored in parts
MAX_FILE_BYTES = 72 << 20
ODD = (
    "a b", " leading", "trailing ", "per%20cent%", "plus+and&amp;", "quote'\"", "#hash?query=1", "ünïcödé-ß", "日本語",
    "🎁 gift", ".hidden", "...", "semi;colon,comma", "[brackets](and) {braces}", "$dollar^caret~", "ends.in.dot.",
    "e\u0301 decomposed", "-rf", "<tag>", "n" * 200,
)  # fmt: skip
ARCHIVES = ("zip", "tar.gz", "7z")

Tree = dict[str, "bytes | None"]  # paths below a top folder to contents, None for folders


def content(rng: Random, large: bool = False) -> bytes:
    if large:
        size = rng.randrange(*LARGE) if rng.random() < 0.95 else rng.randrange(LARGE[1], MAX_FILE_BYTES)
        return unlike(rng, size)
    return rng.randbytes(rng.choice((0, 1, rng.randrange(2000), rng.randrange(40_000))))


def unlike(rng: Random, size: int) -> bytes:
    """Bytes of which no MiB is like another one."""
    block = rng.randbytes(1 << 20)
    return b"".join(number.to_bytes(4) + block[4:] for number in range(size >> 20)) + rng.randbytes(size % (1 << 20))


def generate(rng: Random, files: int, large: int) -> Tree:
    """A tree of so many small and large files, with every folder on the way named."""
    folders = [""]
    for _ in range(rng.randrange(1, 8)):
        name = rng.choice(ODD) if rng.random() < 0.5 else f"d{rng.randrange(1000)}"
        folders.append(f"{rng.choice(folders)}/{name}".lstrip("/"))
    tree: Tree = dict.fromkeys(folders)
    for number in range(files + large):
        stem = rng.choice(ODD) if rng.random() < 0.3 else f"f{number}.bin"
        path = f"{rng.choice(folders)}/{stem}".lstrip("/")
        if path not in tree:
            tree[path] = content(rng, large=number >= files)
    for number in range(rng.randrange(3)):
        tree[f"{rng.choice(folders)}/empty{number}".lstrip("/")] = None
    return parents(tree)


def parents(tree: Tree) -> Tree:
    """The tree with every folder on the way named."""
    parents_found: Tree = {"": None}
    for path, content in tree.items():
        steps = path.split("/")
        parents_found |= {"/".join(steps[:count]): None for count in range(1, len(steps))} | {path: content}
    return parents_found


def make_archive(tree: Tree, kind: str) -> bytes:
    """An archive of ARCHIVES with all that is below the top folder."""
    entries = {path: body for path, body in tree.items() if path}
    packed = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
            for path, body in entries.items():
                file.writestr(f"{path}/" if body is None else path, body or b"")
    elif kind == "tar.gz":
        with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as tar:
            for path, body in entries.items():
                entry = tarfile.TarInfo(path)
                entry.type, entry.size = (tarfile.DIRTYPE, 0) if body is None else (tarfile.REGTYPE, len(body))
                tar.addfile(entry, io.BytesIO(body or b""))
    else:
        filters = [{"id": py7zr.FILTER_COPY}]
        with tempfile.TemporaryDirectory() as empty, py7zr.SevenZipFile(packed, "w", filters=filters) as seven:
            for path, body in entries.items():
                seven.write(empty, path) if body is None else seven.writestr(body, path)
    return packed.getvalue()
