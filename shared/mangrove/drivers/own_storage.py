"""A storage of the service itself: a folder of the data directory on one machine, a bucket in the cloud."""

from __future__ import annotations

import json
import os

from mangrove.core.config import config
from mangrove.core.problems import Problem
from mangrove.drivers import registry
from mangrove.drivers.base import Driver, DriverContext


async def start_own_storage(folder: str, bucket_variable: str) -> Driver:
    """The storage `<data>/<folder>`, or the bucket that a variable names; Problem where there is neither."""
    data, bucket = config().data, os.environ.get(bucket_variable, "")
    if data is not None:
        place = data / folder
        place.mkdir(mode=0o700, exist_ok=True)
        name, options = "Local", {"root_folder_path": str(place), "show_hidden": True}
    elif bucket:
        region = os.environ.get("AWS_REGION", "us-east-1")
        name, options = "S3", {"bucket": bucket, "region": region, "root_folder_path": "/"}
    else:
        raise Problem(f"there is no place for {folder}")
    kind = registry.load(name)
    made = kind(kind.Options.parse(json.dumps(options)), DriverContext())
    await made.start()
    return made
