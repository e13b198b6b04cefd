"""The state Plan of the machine decompress."""

from mangrove.tasks.core.workers import make_handler

handler = make_handler("decompress", "Plan")
