"""The hourly clean-up."""

from mangrove.tasks.core.schedules import make_scheduled
from mangrove.tasks.core.sweep import sweep

handler = make_scheduled(sweep)
