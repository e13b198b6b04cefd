"""The state Begin of the machine download."""

from mangrove.tasks.core.entry_points import make_handler

handler = make_handler("download", "Begin")
