"""Archives that are read in place: listed and unpacked through ranged reads, in limited memory, member by member.

This package is independent of storages, users and HTTP. Statements of an archive about itself are not trusted: names
are validated, declared sizes are enforced while unpacking, and a member that must not be unpacked has the reason in
`refused`.
"""

from __future__ import annotations

from mangrove.archives.base import Archive as Archive
from mangrove.archives.base import ArchiveLimits as ArchiveLimits
from mangrove.archives.base import Member as Member
from mangrove.archives.base import Source as Source
from mangrove.archives.opening import EXTENSIONS as EXTENSIONS
from mangrove.archives.opening import NOT_AN_ARCHIVE as NOT_AN_ARCHIVE
from mangrove.archives.opening import base_name as base_name
from mangrove.archives.opening import is_supported as is_supported
from mangrove.archives.opening import open_archive as open_archive
