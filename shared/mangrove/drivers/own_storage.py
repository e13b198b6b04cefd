"""A storage of the service itself: a folder of the data directory on one machine, a bucket in the cloud."""

from __future__ import annotations

import json

from mangrove.core.platform import platform
from mangrove.drivers import registry
from mangrove.drivers.base import Driver, DriverContext


async def start_own_storage(folder: str, bucket_variable: str) -> Driver:
    """The storage `<data>/<folder>`, or the bucket that a variable names; Problem where there is neither."""
    name, options = platform().describe_own_storage(folder, bucket_variable)
    kind = registry.load(name)
    made = kind(kind.Options.parse(json.dumps(options)), DriverContext())
    await made.start()
    return made
