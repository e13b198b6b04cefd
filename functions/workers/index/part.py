"""The state Part of the machine index."""

from mangrove.tasks import index_part

handler = index_part.handle
