"""What some drivers can do, and others cannot: each power is a protocol, and `isinstance` tells who has it."""

from __future__ import annotations

from abc import ABCMeta
from typing import Any, Protocol


class _PowerType(type(Protocol)):  # type: ignore[misc]  # a base that mypy cannot follow: the class of protocols
    def __instancecheck__(cls, instance: Any) -> bool:
        return ABCMeta.__subclasscheck__(cls, type(instance))


class Power(Protocol, metaclass=_PowerType):
    """What each of them is. A driver has its powers from its class, and Python remembers which class has which: the
    usual check of a protocol looks for every method at the object, each time anew."""
