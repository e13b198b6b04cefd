"""The state Settle of the machine compress."""

from mangrove.tasks.core.workers import make_handler

handler = make_handler("compress", "Settle")
