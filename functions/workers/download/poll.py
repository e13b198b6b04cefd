"""The state Poll of the machine download."""

from mangrove.tasks.core.workers import make_handler

handler = make_handler("download", "Poll")
