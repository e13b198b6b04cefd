"""The state Poll of the machine download."""

from mangrove.tasks import download, specs
from mangrove.tasks.steps import make_worker

handler = make_worker(specs.DOWNLOAD, download.poll, slice=download.SLICE_SECONDS)
