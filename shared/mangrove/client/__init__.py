"""A client of the HTTP API of any Mangrove, with types. It needs httpx and nothing of the service.

`mangrove.client.filesystem` has a file system for fsspec.
"""

from mangrove.client.client import Client
from mangrove.client.errors import ClientError, ConnectionFailed, TaskFailed

__all__ = ["Client", "ClientError", "ConnectionFailed", "TaskFailed"]
