"""The state Poll of the machine download."""

from mangrove.tasks.core.entry_points import make_handler

handler = make_handler("download", "Poll")
