"""The descriptions of AWS services as botocore reads them, without the documentation in them.

A client keeps the description of its service as long as it lives. The one of DynamoDB takes 1.6 MB as botocore reads it
and 0.7 without documentation and ordered dictionaries.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import orjson

TEXT = "documentation"
DOCUMENTED_PARAMETERS = "clientContextParams"  # of which botocore requires the documentation


class DescriptionReader:
    """Reads a file of descriptions for botocore's loader. A path has no ending."""

    def exists(self, path: str) -> bool:
        """Return True if there is such a file."""
        return Path(f"{path}.json").is_file() or Path(f"{path}.json.gz").is_file()

    def load_file(self, path: str) -> Any:
        """Return the content of a file, None if there is none."""
        content = _read(path)
        if content is None:
            return None
        description = orjson.loads(content)
        if TEXT.encode() in content:
            _drop_texts(description)
        return description


def _read(path: str) -> bytes | None:
    """Return the content of a file. botocore is installed with compressed files, and a function has others."""
    plain, compressed = Path(f"{path}.json"), Path(f"{path}.json.gz")
    if plain.is_file():
        return plain.read_bytes()
    return gzip.decompress(compressed.read_bytes()) if compressed.is_file() else None


def _drop_texts(part: Any) -> None:
    """Remove the documentation from a part of a description. A member may have the name of a text."""
    if isinstance(part, dict):
        if isinstance(part.get(TEXT), str):
            del part[TEXT]
        for name, value in part.items():
            if name != DOCUMENTED_PARAMETERS:
                _drop_texts(value)
    elif isinstance(part, list):
        for value in part:
            _drop_texts(value)
