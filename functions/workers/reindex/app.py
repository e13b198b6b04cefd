"""The scheduled check of the indexes: it starts runs for missing indexes and for changes that wait for too long."""

from mangrove.tasks.core.worker_loop import make_scheduled
from mangrove.tasks.index.indexing import refresh

handler = make_scheduled(refresh)
