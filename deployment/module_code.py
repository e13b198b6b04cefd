"""The byte code of the modules that functions import, in one file for `mangrove.core.stored_modules`."""

from __future__ import annotations

import importlib.util
import marshal
import sys
from collections.abc import Iterator
from pathlib import Path

FILE = Path("mangrove", "core", f"modules.{sys.implementation.cache_tag}.marshal")  # in the folder of the layer
LENGTH_BYTES = 8  # of the length of the index, with which the file begins
STORED = (  # packages and modules that most functions import; the rest of the layer is for few of them
    "annotated_doc", "annotated_types", "anyio", "argon2", "aws_lambda_powertools", "blinker", "cryptography",
    "fastapi", "httptools", "mangrove", "mangum", "orjson", "pydantic", "pydantic_core", "pynamodb", "pyotp",
    "starlette", "typing_extensions", "typing_inspection",
)  # fmt: skip
UNSTORED = frozenset({"mangrove.client", "mangrove.commands", "mangrove.standalone"})  # which no function imports
IMPORTED_BEFORE = frozenset({"mangrove", "mangrove.core", "mangrove.core.stored_modules"})  # they read the file
HASH_BYTES = 16  # with which a file of byte code begins


def store_modules(layer: Path) -> None:
    """Store the byte code that the build has compiled in the folder of a layer.

    The package loses the files of its stored byte code. Libraries keep theirs, since a function may import one before
    the package.
    """
    if not (layer / FILE.parent).is_dir():
        return
    index: dict[str, tuple[int, int, bool]] = {}
    codes: list[bytes] = []
    position = 0
    for name, source in sorted(_list_modules(layer)):
        compiled = Path(importlib.util.cache_from_source(str(source)))
        code = compiled.read_bytes()[HASH_BYTES:]
        index[name] = (position, len(code), source.stem == "__init__")
        codes.append(code)
        position += len(code)
        if name.startswith("mangrove.") and name not in IMPORTED_BEFORE:
            compiled.unlink()
    content = marshal.dumps(index)
    (layer / FILE).write_bytes(len(content).to_bytes(LENGTH_BYTES) + content + b"".join(codes))


def _list_modules(layer: Path) -> Iterator[tuple[str, Path]]:
    """Yield the modules to store, each with its source."""
    for package in STORED:
        for source in [layer / f"{package}.py", *(layer / package).rglob("*.py")]:
            path = source.relative_to(layer).with_suffix("")
            parts = path.parts[:-1] if path.name == "__init__" else path.parts
            is_compiled = Path(importlib.util.cache_from_source(str(source))).exists()
            if is_compiled and ".".join(parts[:2]) not in UNSTORED:
                yield ".".join(parts), source
