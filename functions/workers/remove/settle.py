"""The state Settle of the machine remove."""

from mangrove.tasks.core.workers import make_handler

handler = make_handler("remove", "Settle")
