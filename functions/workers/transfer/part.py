"""The state Part of the machine transfer."""

from mangrove.tasks import transfer_part

handler = transfer_part.handle
