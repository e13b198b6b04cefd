"""The state Settle of the machine download."""

from mangrove.tasks.core.workers import make_handler

handler = make_handler("download", "Settle")
