"""The hourly clean-up."""

from mangrove.tasks.core.worker_loop import make_scheduled
from mangrove.tasks.sweep import sweep

handler = make_scheduled(sweep)
