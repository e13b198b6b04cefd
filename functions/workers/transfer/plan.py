"""The state Plan of the machine transfer."""

from mangrove.tasks import specs, transfer
from mangrove.tasks.steps import make_worker

handler = make_worker(specs.TRANSFER, transfer.plan)
