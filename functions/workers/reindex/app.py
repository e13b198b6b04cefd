"""The regular look at the indexes: which are missing, and what changed so long ago that it is to be folded in."""

from mangrove.tasks.core.workers import make_scheduled
from mangrove.tasks.index.indexing import refresh

handler = make_scheduled(refresh)
