"""Symbols for control characters (U+2401 to U+241F), of which encrypted names may have some.

rclone keeps such names as its crypt makes them only where the storage cannot have control characters. Elsewhere the
control characters themselves are in the name, and a symbol there would be a name that rclone does not find.
"""

from __future__ import annotations

from mangrove.core.paths import TreePath
from mangrove.drivers.base import Driver

_TO_CONTROLS = {0x2400 + code: code for code in range(1, 32)}
_TO_SYMBOLS = {code: symbol for symbol, code in _TO_CONTROLS.items()}
_WITHOUT_CONTROLS = frozenset({"FTP", "SMB"})


def spell_symbols(name: str) -> str:
    """A name as the ciphers know it."""
    return name if name.isprintable() else name.translate(_TO_SYMBOLS)


def spell_controls(path: TreePath) -> TreePath:
    """A path as rclone has it in most storages."""
    return TreePath(path.translate(_TO_CONTROLS))


def list_spellings(driver: Driver, path: TreePath) -> tuple[TreePath, ...]:
    """The path as rclone would make it in this storage, then the other spelling if there is one."""
    other = spell_controls(path)
    if other == path:
        return (path,)
    return (path, other) if driver.name in _WITHOUT_CONTROLS else (other, path)
