"""The state Settle of the machine download."""

from mangrove.tasks import download
from mangrove.tasks.steps import settler

handler = settler(download.clean)
