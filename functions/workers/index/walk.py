"""The state Walk of the machine index."""

from mangrove.tasks import index, index_parts, specs
from mangrove.tasks.steps import make_worker

handler = make_worker(specs.INDEX, index.walk, slice=index.SLICE_SECONDS, describe=index_parts.describe_parts)
