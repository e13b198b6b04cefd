"""The state Extract of the machine decompress."""

from mangrove.tasks import decompress, specs
from mangrove.tasks.steps import make_worker

handler = make_worker(specs.DECOMPRESS, decompress.extract, slice=decompress.SLICE_SECONDS)
