"""rclone's obfuscated names: letters rotated by their sum and the key. It hides names from a glance, no more."""

from __future__ import annotations

from collections.abc import Iterator

QUOTE = "!"
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_DIGITS = "0123456789"
_LATIN = 0xA0  # up to 0xFF
_PAGE = 0x100  # code points of a block in which those above Latin-1 stay


class Obfuscation:
    """`<n>.` and the rotated text, where n is the sum of the code points modulo 256."""

    def __init__(self, key: bytes) -> None:
        self._shift = sum(key)

    def encrypt(self, name: str) -> str:
        """The rotated name."""
        if not name:
            return ""
        number = sum(map(ord, name)) % 256
        return f"{number}." + "".join(_quote(letter, self._shift + number) for letter in name)

    def decrypt(self, text: str) -> str:
        """The name; ValueError for a text that is none."""
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
    """`shift` negative: back."""
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
    """A rotation by 1 to `most` places, in the direction of `shift`."""
    return shift % most + 1 if shift >= 0 else -(-shift % most + 1)
