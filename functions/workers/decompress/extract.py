"""The state Extract of the machine decompress."""

from mangrove.tasks import decompress
from mangrove.tasks.steps import worker

handler = worker(decompress.extract, slice=decompress.SLICE_SECONDS)
