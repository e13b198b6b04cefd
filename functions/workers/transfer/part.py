"""The state Part of the machine transfer."""

from mangrove.tasks.transfer import part as transfer_part

handler = transfer_part.handle
