"""A storage that is tried before it is stored: a driver that runs for one call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mangrove.core.limits import limits
from mangrove.core.paths import TreePath
from mangrove.core.problems import Problem, StorageUnavailable
from mangrove.core.telemetry import log_exception
from mangrove.drivers import registry
from mangrove.drivers.base import Driver, DriverContext
from mangrove.tree import mounts

if TYPE_CHECKING:
    from mangrove.drivers.options import Options

TRIAL_SECONDS = 20.0  # of the whole trial
MAX_TRIAL_FOLDERS = 1000  # in the answer


@dataclass(slots=True)
class Trial:
    """The result of a trial."""

    folders: list[str] = field(default_factory=list)
    """Names of folders in the folder, at most MAX_TRIAL_FOLDERS, in the order of the storage."""
    addition: str = ""
    """The options, with the tokens that the driver replaced."""


async def try_storage(driver: str, addition: str, path: TreePath, caller: str) -> Trial:
    """Start a driver with these options, list the folders of a folder, and stop it. Nothing is stored.

    Raise a Problem with the reason if it does not start, or the folder cannot be listed.
    """
    registry.check_disk(driver)
    trial = Trial(addition=addition)
    async with limits().large_requests.hold(caller):
        try:
            async with asyncio.timeout(TRIAL_SECONDS), _run_driver(driver, trial) as running:
                trial.folders = await _list_folders(running, path)
        except TimeoutError:
            raise StorageUnavailable(f"the storage did not answer within {TRIAL_SECONDS:.0f} s") from None
    return trial


@asynccontextmanager
async def _run_driver(name: str, trial: Trial) -> AsyncIterator[Driver]:
    async def save_options(options: Options) -> None:
        trial.addition = options.format()

    kind = registry.load(name)
    context = DriverContext(resolver=mounts.MountResolver(), save_options=save_options)
    driver = kind(kind.Options.parse(trial.addition), context)
    try:
        await _start(driver)
        yield driver
    finally:
        await driver.stop()


async def _start(driver: Driver) -> None:
    try:
        await driver.start()
    except (Problem, TimeoutError):
        raise
    except Exception:  # an unexpected error of a library is no answer for the administrator
        log_exception("driver failed to start", driver=driver.name)
        raise StorageUnavailable("the driver failed to start, see the log") from None


async def _list_folders(driver: Driver, path: TreePath) -> list[str]:
    names: list[str] = []
    async for batch in driver.list(path):
        names += [entry.name for entry in batch if entry.is_dir]
        if len(names) >= MAX_TRIAL_FOLDERS:
            break
    return names[:MAX_TRIAL_FOLDERS]
