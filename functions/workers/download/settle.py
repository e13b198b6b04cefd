"""The state Settle of the machine download."""

from mangrove.tasks import download, specs
from mangrove.tasks.steps import make_settler

handler = make_settler(specs.DOWNLOAD, download.clean)
