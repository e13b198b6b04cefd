"""The state Settle of the machine transfer."""

from mangrove.tasks.core import specs
from mangrove.tasks.core.steps import make_settler
from mangrove.tasks.transfer import worker as transfer

handler = make_settler(specs.TRANSFER, transfer.clean)
