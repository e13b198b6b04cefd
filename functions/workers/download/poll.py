"""The state Poll of the machine download."""

from mangrove.tasks.core import specs
from mangrove.tasks.core.steps import make_worker
from mangrove.tasks.download import worker as download

handler = make_worker(specs.DOWNLOAD, download.poll, step_seconds=download.STEP_SECONDS)
