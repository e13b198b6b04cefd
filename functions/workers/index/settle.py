"""The state Settle of the machine index."""

from mangrove.tasks.core.entry_points import make_handler

handler = make_handler("index", "Settle")
