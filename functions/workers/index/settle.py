"""The state Settle of the machine index."""

from mangrove.tasks import index_settle, specs
from mangrove.tasks.steps import make_settler

handler = make_settler(specs.INDEX, index_settle.clean)
