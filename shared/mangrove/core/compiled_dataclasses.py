"""The compiled methods of dataclasses, as `make build` stores them beside this file.

The decorator writes the source of the methods of a class and compiles it, at each import of the class: that is an
eighth of the CPU of a cold start. The stored code takes the place of that compilation for equal sources. Without the
file, and for other sources, the decorator compiles as usual.
"""

from __future__ import annotations

import dataclasses
import marshal
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

CODE_FILE = Path(__file__).parent / "dataclasses.marshal"
DIGEST_BYTES = 16


def find_digest(source: str) -> bytes:
    """Return the name of a source in the file."""
    return blake2b(source.encode(), digest_size=DIGEST_BYTES).digest()


def use_compiled_methods(file: Path = CODE_FILE) -> None:
    """Have the decorator use the code in the file, if it exists.

    The file is of the build, as the byte code is, so its content is trusted as much.
    """
    if not file.exists():
        return
    codes: Mapping[bytes, bytes] = marshal.loads(file.read_bytes())  # noqa: S302  # of the build

    def execute(source: str, names: dict[str, Any], local_names: dict[str, Any]) -> None:
        code = codes.get(find_digest(source))
        # the text is that of the standard library for a class of ours, the code is compiled from it by the build
        exec(source if code is None else marshal.loads(code), names, local_names)  # noqa: S102, S302

    dataclasses.exec = execute  # type: ignore[attr-defined]  # the name that the module looks up before the built-in
