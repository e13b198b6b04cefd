"""Trees of drivers for tests: mounts below each other, found as the tree finds them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from mangrove.core.paths import TreePath
from mangrove.core.problems import NotMounted
from mangrove.drivers import registry
from mangrove.drivers.base import Driver, DriverContext
from mangrove.drivers.options import Options


class Tree:
    """Mounts by path; those of one path take turns. `statuses`: what storages reported, by mount path; `saved`: the
    options that they stored."""

    def __init__(self) -> None:
        self.mounts: dict[str, list[Driver]] = {}
        self.statuses: dict[str, str] = {}
        self.saved: dict[str, Options] = {}
        self.turns = 0

    async def mount(self, path: str, name: str, **options: Any) -> Any:
        """Start a driver at a path of the tree."""

        async def report(text: str) -> None:
            self.statuses[path] = text

        async def save(options: Options) -> None:
            self.saved[path] = options

        kind = registry.load(name)
        context = DriverContext(
            mount_path=TreePath(path), modified=1.7e9, resolver=self, report_status=report, save_options=save
        )
        driver = kind(kind.Options.parse(json.dumps(options)), context)
        await driver.start()
        self.mounts.setdefault(path, []).append(driver)
        return driver

    async def crypt(self, path: str, remote: str, **options: Any) -> Any:
        """Mount a Crypt whose names and folders are encrypted, unless the options say otherwise."""
        usual = {
            "filename_encryption": "standard", "directory_name_encryption": "true", "password": "pass",
            "encrypted_suffix": ".bin", "show_hidden": True,
        }  # fmt: skip
        return await self.mount(path, "Crypt", remote_path=remote, **usual | options)

    async def resolve(self, path: TreePath) -> tuple[Driver, TreePath]:
        for folder in path.ancestors():
            if folder in self.mounts:
                choices = self.mounts[folder]
                self.turns += len(choices) > 1
                return choices[self.turns % len(choices)], path.below(folder)
        raise NotMounted(f"storage not found; rawPath: {path}")

    def folders(self, path: TreePath) -> Sequence[str]:
        below = [TreePath(mount).below(path) for mount in self.mounts if TreePath(mount).within(path)]
        return sorted({folder_path.split("/")[1] for folder_path in below if folder_path != "/"})

    def hand_over(self, path: str) -> Any:
        """The driver mounted at a path; with its end the others end, too."""
        (driver,) = self.mounts[path]
        stop = driver.stop

        async def stop_all() -> None:
            await stop()
            for drivers in self.mounts.values():
                for other in drivers:
                    if other is not driver:
                        await other.stop()

        driver.stop = stop_all  # type: ignore[method-assign]
        return driver
