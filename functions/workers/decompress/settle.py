"""The state Settle of the machine decompress."""

from mangrove.tasks import decompress
from mangrove.tasks.steps import settler

handler = settler(decompress.clean)
