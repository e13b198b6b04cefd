"""The regular look at the indexes: which are missing, and what changed so long ago that it is to be folded in."""

from mangrove.tasks.indexing import refresh
from mangrove.tasks.schedules import make_scheduled

handler = make_scheduled(refresh)
