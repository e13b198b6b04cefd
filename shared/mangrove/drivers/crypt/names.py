"""Names of files and folders, encrypted as rclone's crypt does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Protocol

from mangrove.core.paths import MAX_NAME_BYTES, TreePath, check_existing_name
from mangrove.core.problems import BadRequest, Problem, StorageProblem
from mangrove.drivers.base import Driver
from mangrove.drivers.crypt.ciphers import BLOCK, MAX_WIDE_BLOCK_BYTES, Eme, Keys
from mangrove.drivers.crypt.encodings import (
    Encoding,
    make_encoding,
)
from mangrove.drivers.crypt.options import CryptOptions

QUOTE = "!"
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_DIGITS = "0123456789"
_LATIN = 0xA0  # up to 0xFF
_PAGE = 0x100  # code points of a block in which those above Latin-1 stay


class Obfuscation:
    """Return `<n>.` and the rotated text, where n is the sum of the code points modulo 256."""

    def __init__(self, key: bytes) -> None:
        self._shift = sum(key)

    def encrypt(self, name: str) -> str:
        """Return the rotated name."""
        if not name:
            return ""
        number = sum(map(ord, name)) % 256
        return f"{number}." + "".join(_quote(letter, self._shift + number) for letter in name)

    def decrypt(self, text: str) -> str:
        """Return the name. Raise ValueError for a text that is not obfuscated."""
        if not text:
            return ""
        number, point, rotated = text.partition(".")
        if point and number == QUOTE:
            return rotated
        if not (point and number.isascii() and number.isdigit()):
            raise ValueError("not an obfuscated name")
        name = "".join(_unquote(rotated, -self._shift - int(number)))
        if sum(map(ord, name)) % 256 != int(number):
            raise ValueError("obfuscated with another key")
        return name


def _quote(letter: str, shift: int) -> str:
    if letter == QUOTE:
        return QUOTE + QUOTE
    rotated = _rotate(letter, shift)
    return rotated if not 0xD800 <= ord(rotated) < 0xE000 else QUOTE + letter


def _unquote(text: str, shift: int) -> Iterator[str]:
    letters = iter(text)
    for letter in letters:
        yield next(letters, "") if letter == QUOTE else _rotate(letter, shift)


def _rotate(letter: str, shift: int) -> str:
    """Return the rotated character; a negative `shift` reverses it."""
    code = ord(letter)
    if letter in _DIGITS:
        return _DIGITS[(int(letter) + _reduce(shift, 9)) % 10]
    if letter in _LETTERS:
        return _LETTERS[(_LETTERS.index(letter) + _reduce(shift, 25)) % 52]
    if _LATIN <= code < _PAGE:
        return chr(_LATIN + (code - _LATIN + _reduce(shift, 95)) % 96)
    if code >= _PAGE:
        return chr(code - code % _PAGE + (code % _PAGE + _reduce(shift, 127)) % _PAGE)
    return letter


def _reduce(shift: int, most: int) -> int:
    """A rotation by 1 to `most` positions, in the direction of `shift`."""
    return shift % most + 1 if shift >= 0 else -(-shift % most + 1)


_TO_CONTROLS = {0x2400 + code: code for code in range(1, 32)}
_TO_SYMBOLS = {code: symbol for symbol, code in _TO_CONTROLS.items()}
_WITHOUT_CONTROLS = frozenset({"FTP", "SMB"})


def spell_symbols(name: str) -> str:
    """Return a name in the form for the ciphers."""
    return name if name.isprintable() else name.translate(_TO_SYMBOLS)


def spell_controls(path: TreePath) -> TreePath:
    """Return a path as rclone writes it in most storages."""
    return TreePath(path.translate(_TO_CONTROLS))


def list_spellings(driver: Driver, path: TreePath) -> tuple[TreePath, ...]:
    """Return the path as rclone writes it in this storage, then the other spelling if there is one."""
    other = spell_controls(path)
    if other == path:
        return (path,)
    return (path, other) if driver.name in _WITHOUT_CONTROLS else (other, path)


_VERSION = re.compile(r"-v\d{4}-\d\d-\d\d-\d{6}-\d{3}")
_TIME = "-v%Y-%m-%d-%H%M%S"
_MILLISECONDS = 4  # characters at the end of a version


class SegmentCipher(Protocol):
    """A cipher for one name. `decrypt` raises ValueError for a text that it cannot have made."""

    def encrypt(self, name: str) -> str: ...
    def decrypt(self, text: str) -> str: ...


class StandardNames:
    """AES in EME mode over the padded name."""

    def __init__(self, eme: Eme, encoding: Encoding) -> None:
        self._eme = eme
        self._encoding = encoding

    def encrypt(self, name: str) -> str:
        if not name:
            return ""
        plain = name.encode()
        count = BLOCK - len(plain) % BLOCK
        if len(plain) + count > MAX_WIDE_BLOCK_BYTES:
            raise ValueError("too long")
        return self._encoding.encode(self._eme.encrypt(plain + bytes([count]) * count))

    def decrypt(self, text: str) -> str:
        if not text:
            return ""
        sealed = self._encoding.decode(text)
        if not sealed or len(sealed) % BLOCK or len(sealed) > MAX_WIDE_BLOCK_BYTES:
            raise ValueError("not whole blocks")
        padded = self._eme.decrypt(sealed)
        count = padded[-1]
        if not 1 <= count <= BLOCK or padded[-count:] != bytes([count]) * count:
            raise ValueError("not padded")
        return padded[:-count].decode()


class EncryptedNames:
    """Names of the tree and names of the remote, converted by the options.

    `are_alike`: a file and a folder of one name have one name there, too; but see `is_alike`. `makes_symbols`:
    encrypted names may have symbols for control characters, see `spelling`.
    """

    def __init__(self, options: CryptOptions, keys: Keys) -> None:
        self._suffix = options.encrypted_suffix
        self._cipher: SegmentCipher | None = None
        if options.filename_encryption == "standard":
            encoding = make_encoding(options.filename_encoding)
            self._cipher = StandardNames(Eme(keys.names, keys.tweak), encoding)
        elif options.filename_encryption == "obfuscate":
            self._cipher = Obfuscation(keys.names)
        self._folder_cipher = self._cipher if options.directory_name_encryption == "true" else None
        self.are_alike = self._folder_cipher is not None
        self.makes_symbols = options.filename_encryption == "standard"

    def encrypt(self, name: str, is_dir: bool) -> str:
        """Return the name in the remote. Raise ValueError for one that is too long to be encrypted.

        The version is not encrypted.
        """
        cipher = self._folder_cipher if is_dir else self._cipher
        if cipher is None:
            return name if is_dir else name + self._suffix
        rest, version = (name, "") if is_dir else _remove_version(name)
        return _add_version(cipher.encrypt(rest), version)

    def decrypt(self, name: str, is_dir: bool) -> str | None:
        """Return the name in the tree; None for a name that is not encrypted in this way, or not valid in the tree."""
        try:
            plain = self._decrypt(name, is_dir)
            check_existing_name(plain)
        except (ValueError, Problem):
            return None
        return plain

    def is_alike(self, name: str) -> bool:
        """True if a file and a folder of this name have one name in the remote.

        Only a file's version is not encrypted, as rclone stores the content of a folder with such a name.
        """
        return self.are_alike and not _remove_version(name)[1]

    def tells_keys(self, is_dir: bool) -> bool:
        """True if names of files or folders match only these options."""
        return not is_dir or self._folder_cipher is not None

    def _decrypt(self, name: str, is_dir: bool) -> str:
        cipher = self._folder_cipher if is_dir else self._cipher
        if cipher is not None:
            name = spell_symbols(name) if self.makes_symbols else name
            text, version = (name, "") if is_dir else _remove_version(name)
            return _add_version(cipher.decrypt(text), version)
        if is_dir:
            return name
        if not name.endswith(self._suffix):
            raise ValueError("without the suffix")
        return name.removesuffix(self._suffix)

    def encrypt_path(self, path: TreePath, is_dir: bool) -> TreePath:
        """Return a path of the tree as the remote has it. Raise StorageProblem for one that it cannot have."""
        if path == "/":
            return path
        folders = [self.encrypt(name, True) for name in path.parent.split("/") if name] if self.are_alike else []
        try:
            parent = TreePath("/".join(folders)) if self.are_alike else path.parent
            return parent / self.encrypt(path.name, is_dir)
        except (ValueError, BadRequest):
            raise StorageProblem(f"the path of {path.name} is too long once it is encrypted") from None

    def check_length(self, path: TreePath, is_dir: bool) -> None:
        """Raise StorageProblem if a name of the path, once encrypted, is longer than file systems allow."""
        for step in path.ancestors()[:-1]:
            length = len(self.encrypt_path(step, is_dir or step != path).name.encode())
            if length > MAX_NAME_BYTES:
                raise StorageProblem(
                    f"the name {step.name} is too long: encrypted it has {length} bytes, at most {MAX_NAME_BYTES} fit"
                )


def _split_extension(name: str) -> tuple[str, str]:
    base, point, extension = name.rpartition(".")
    return (base, point + extension) if point else (name, "")


def _remove_version(name: str) -> tuple[str, str]:
    """Return the name without rclone's version, `-v2006-01-02-150405-000` before the extension, and the version."""
    base, extension = _split_extension(name)
    match = _VERSION.search(base, max(len(base) - 23, 0))
    if match is None or match.end() != len(base):
        return name, ""
    version = match.group()
    try:
        datetime.strptime(version[:-_MILLISECONDS], _TIME)
    except ValueError:
        return name, ""
    return base[: match.start()] + extension, version


def _add_version(name: str, version: str) -> str:
    if not version:
        return name
    base, extension = _split_extension(name)
    return base + version + extension
