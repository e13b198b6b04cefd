"""The state Begin of the machine download."""

from mangrove.tasks import download, specs
from mangrove.tasks.steps import make_worker

handler = make_worker(specs.DOWNLOAD, download.begin)
