"""The state Plan of the machine transfer."""

from mangrove.tasks.core import specs
from mangrove.tasks.core.steps import make_worker
from mangrove.tasks.transfer import worker as transfer

handler = make_worker(specs.TRANSFER, transfer.plan)
