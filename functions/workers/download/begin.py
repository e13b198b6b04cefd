"""The state Begin of the machine download."""

from mangrove.tasks import download
from mangrove.tasks.steps import worker

handler = worker(download.begin)
