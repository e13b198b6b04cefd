"""The state Remove of the machine remove."""

from mangrove.tasks.core.entry_points import make_handler

handler = make_handler("remove", "Remove")
