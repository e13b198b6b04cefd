"""The state Move of the machine transfer."""

from mangrove.tasks import specs, transfer
from mangrove.tasks.steps import make_worker
from mangrove.tasks.transfer_parts import describe_parts

handler = make_worker(specs.TRANSFER, transfer.move, describe=describe_parts)
