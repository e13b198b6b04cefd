"""The state Walk of the machine index."""

from mangrove.tasks.core import specs
from mangrove.tasks.core.steps import make_worker
from mangrove.tasks.index import parts as index_parts
from mangrove.tasks.index import worker as index

handler = make_worker(specs.INDEX, index.walk, step_seconds=index.STEP_SECONDS, describe=index_parts.describe_parts)
