"""The state Part of the machine index."""

from mangrove.tasks.core.workers import make_handler

handler = make_handler("index", "Part")
