"""The state Poll of the machine download."""

from mangrove.tasks import download
from mangrove.tasks.steps import worker

handler = worker(download.poll, slice=download.SLICE_SECONDS)
