"""The state Plan of the machine index."""

from mangrove.tasks import index, specs
from mangrove.tasks.steps import make_worker

handler = make_worker(specs.INDEX, index.plan)
