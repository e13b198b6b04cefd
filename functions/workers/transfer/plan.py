"""The state Plan of the machine transfer."""

from mangrove.tasks.core.entry_points import make_handler

handler = make_handler("transfer", "Plan")
