"""The state Move of the machine transfer."""

from mangrove.tasks.core import specs
from mangrove.tasks.core.steps import make_worker
from mangrove.tasks.transfer import worker as transfer
from mangrove.tasks.transfer.parts import describe_parts

handler = make_worker(specs.TRANSFER, transfer.move, describe=describe_parts)
