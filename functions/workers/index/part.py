"""The state Part of the machine index."""

from mangrove.tasks.index import part as index_part

handler = index_part.handle
