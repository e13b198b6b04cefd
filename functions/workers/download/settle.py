"""The state Settle of the machine download."""

from mangrove.tasks.core import specs
from mangrove.tasks.core.steps import make_settler
from mangrove.tasks.download import worker as download

handler = make_settler(specs.DOWNLOAD, download.clean)
