"""The configuration: `await get()` in requests, `get_sync()` in threads, `cached()` where its age does not matter."""

from mangrove.configuration.snapshot import (
    Snapshot,
    cached,
    get,
    get_sync,
    is_fresh,
    is_loaded,
    prefetch,
    reload,
)

__all__ = ["Snapshot", "cached", "get", "get_sync", "is_fresh", "is_loaded", "prefetch", "reload"]
