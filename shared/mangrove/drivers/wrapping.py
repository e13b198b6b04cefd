"""The base of drivers that change some operations of another driver, under the same paths."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from mangrove.core.paths import TreePath
from mangrove.drivers.base import Driver, Entry


class WrappingDriver(Driver):
    """A driver with the operations of the driver behind it, under the same paths. Subclasses replace some of them."""

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver.options, driver.context)
        self.driver = driver

    def unwrap(self) -> Driver:
        return self.driver.unwrap()

    def get_unmapped(self) -> Driver:
        inner = self.driver.get_unmapped()
        return self if inner is self.driver else type(self)(inner)

    def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        return self.driver.list(path)

    async def stat(self, path: TreePath) -> Entry:
        return await self.driver.stat(path)

    async def read(
        self, path: TreePath, offset: int = 0, length: int | None = None, if_match: Entry | None = None
    ) -> AsyncIterator[bytes]:
        return await self.driver.read(path, offset, length, if_match)


def _make_forwarding(name: str) -> property:
    return property(lambda self: getattr(self.driver, name))


def _forward_operations() -> None:
    """Give WrappingDriver the attributes and operations of a driver that it does not define itself."""
    for name in {*vars(Driver), *Driver.__annotations__}:
        if not name.startswith("_") and name not in vars(WrappingDriver):
            setattr(WrappingDriver, name, _make_forwarding(name))


_forward_operations()
