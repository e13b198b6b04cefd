"""The byte code of the modules of a function in one file, as `make build` stores it beside this module.

A cold start imports about three hundred modules. To find, open and read the file of each takes a tenth of its CPU. With
the file, a module is one read at a known position. Without it, and for modules that are not in it, Python imports as
usual.
"""

from __future__ import annotations

import marshal
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType

FILE_NAME = f"modules.{sys.implementation.cache_tag}.marshal"  # another version of Python has other byte code
LENGTH_BYTES = 8  # of the length of the index, with which the file begins; the byte code follows the index

StoredModule = tuple[int, int, bool]
"""The position of the byte code behind the index, its length, and True for a package."""


class StoredModuleLoader(SourceFileLoader):
    """Loads a module whose byte code is stored. It reads the source as any other loader does."""

    def __init__(self, name: str, path: str, file: int, position: int, length: int) -> None:
        super().__init__(name, path)
        self._file = file
        self._position = position
        self._length = length

    def get_code(self, fullname: str) -> CodeType:
        """Return the byte code of the module."""
        code: CodeType = marshal.loads(os.pread(self._file, self._length, self._position))  # noqa: S302  # from the build
        return code


class StoredModuleFinder:
    """Finds the modules in the file, which stays open as long as the process runs."""

    def __init__(self, folder: str, file: int) -> None:
        """`folder`: of the layer, in which the packages are."""
        self._folder = folder
        self._file = file
        length = int.from_bytes(os.pread(file, LENGTH_BYTES, 0))
        index = marshal.loads(os.pread(file, length, LENGTH_BYTES))  # noqa: S302  # of the build, as byte code is
        self._modules: Mapping[str, StoredModule] = index
        self._start = LENGTH_BYTES + length

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the specification of a module, None if it is not in the file."""
        stored = self._modules.get(name)
        if stored is None:
            return None
        position, length, is_package = stored
        folder = f"{self._folder}/{name.replace('.', '/')}"
        source = f"{folder}/__init__.py" if is_package else f"{folder}.py"
        loader = StoredModuleLoader(name, source, self._file, self._start + position, length)
        spec = ModuleSpec(name, loader, origin=source, is_package=is_package)
        spec.has_location = True
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(folder)
        return spec


def use_stored_modules(file: str = f"{__file__.rpartition('/')[0]}/{FILE_NAME}") -> None:
    """Import the modules in a file from there, if it exists. It is in the folder `mangrove/core` of a layer."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    sys.meta_path.insert(0, StoredModuleFinder(file.rsplit("/", 3)[0], descriptor))
