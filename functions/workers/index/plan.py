"""The state Plan of the machine index."""

from mangrove.tasks.core import specs
from mangrove.tasks.core.steps import make_worker
from mangrove.tasks.index import worker as index

handler = make_worker(specs.INDEX, index.plan)
