"""The state Settle of the machine decompress."""

from mangrove.tasks.core import specs
from mangrove.tasks.core.steps import make_settler
from mangrove.tasks.decompress import worker as decompress

handler = make_settler(specs.DECOMPRESS, decompress.clean)
