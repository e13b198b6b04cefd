"""Files that are too large for the answer of a function, and whose storage gives no address: put into staging once, and
handed out from there. The bucket's own rule removes them."""

from __future__ import annotations

import asyncio
from hashlib import sha256

from mangrove.drivers.base import Entry, Links, Upload, Writes
from mangrove.paths import TreePath
from mangrove.problems import NotFound, NotSupported, TooLarge
from mangrove.tasks import staging
from mangrove.tree.mounts import Located

FOLDER = "served"
STAGE_SECONDS = 20.0  # a function has 29 for its whole answer


async def stage(located: Located, entry: Entry, mime: str) -> str:
    """An address of the file as `entry` describes it; TooLarge when it cannot be staged in time."""
    storage = await staging.driver()
    if not isinstance(storage, Links) or not isinstance(storage, Writes):
        raise NotSupported
    version = f"{located.mount.storage.id}\n{located.path}\n{entry.size}\n{entry.modified}\n{entry.etag}"
    path = TreePath(f"/{FOLDER}/{sha256(version.encode()).hexdigest()}") / located.path.name
    try:
        await storage.stat(path)
    except NotFound:
        body = await located.driver.read(located.path, if_match=entry)
        try:
            async with asyncio.timeout(STAGE_SECONDS):
                await storage.write(path, body, Upload(entry.size, entry.modified, mime))
        except TimeoutError:
            raise TooLarge("this file is too large to be handed out from here: its storage is too slow") from None
    return (await storage.link(path)).url
