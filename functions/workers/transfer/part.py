"""The state Part of the machine transfer."""

from mangrove.tasks.core.workers import make_handler

handler = make_handler("transfer", "Part")
