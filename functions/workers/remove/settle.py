"""The state Settle of the machine remove."""

from mangrove.tasks.core.entry_points import make_handler

handler = make_handler("remove", "Settle")
