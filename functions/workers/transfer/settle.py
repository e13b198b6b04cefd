"""The state Settle of the machine transfer."""

from mangrove.tasks import transfer
from mangrove.tasks.steps import settler

handler = settler(transfer.clean)
