"""The state Extract of the machine decompress."""

from mangrove.tasks.core import specs
from mangrove.tasks.core.steps import make_worker
from mangrove.tasks.decompress import worker as decompress

handler = make_worker(specs.DECOMPRESS, decompress.extract, step_seconds=decompress.STEP_SECONDS)
