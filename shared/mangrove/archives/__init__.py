"""Archives read where they lie: listed and unpacked from ranged reads, in bounded memory, entry by entry.

Nothing in here knows storages, users or HTTP. What an archive says of itself is never trusted: names are checked,
sizes are bounds that are enforced while unpacking, and an entry that must not be unpacked says why in `refused`.
"""

from __future__ import annotations

from mangrove.archives.base import Archive as Archive
from mangrove.archives.base import Limits as Limits
from mangrove.archives.base import Member as Member
from mangrove.archives.base import Source as Source
from mangrove.archives.opening import EXTENSIONS as EXTENSIONS
from mangrove.archives.opening import base_name as base_name
from mangrove.archives.opening import opened as opened
from mangrove.archives.opening import supported as supported
