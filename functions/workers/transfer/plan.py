"""The state Plan of the machine transfer."""

from mangrove.tasks import transfer
from mangrove.tasks.steps import worker

handler = worker(transfer.plan)
