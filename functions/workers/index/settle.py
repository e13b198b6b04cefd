"""The state Settle of the machine index."""

from mangrove.tasks.core import specs
from mangrove.tasks.core.steps import make_settler
from mangrove.tasks.index import settle as index_settle

handler = make_settler(specs.INDEX, index_settle.clean)
