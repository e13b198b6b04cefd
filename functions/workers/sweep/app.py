"""The hourly clean-up."""

from mangrove.tasks.schedules import make_scheduled
from mangrove.tasks.sweep import sweep

handler = make_scheduled(sweep)
