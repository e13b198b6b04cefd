"""The state Settle of the machine transfer."""

from mangrove.tasks import specs, transfer
from mangrove.tasks.steps import make_settler

handler = make_settler(specs.TRANSFER, transfer.clean)
