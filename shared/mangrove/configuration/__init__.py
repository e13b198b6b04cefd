"""The configuration.

Requests call `await get()`, threads `get_sync()`; `cached()` is for callers that accept an old one.
"""

from mangrove.configuration.snapshot import (
    Snapshot,
    cached,
    get,
    get_sync,
    is_fresh,
    is_loaded,
    mask_private,
    prefetch,
    reload,
)

__all__ = ["Snapshot", "cached", "get", "get_sync", "is_fresh", "is_loaded", "mask_private", "prefetch", "reload"]
