"""The state Settle of the machine decompress."""

from mangrove.tasks import decompress, specs
from mangrove.tasks.steps import make_settler

handler = make_settler(specs.DECOMPRESS, decompress.clean)
