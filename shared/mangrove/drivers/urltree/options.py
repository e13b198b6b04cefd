"""The form of a UrlTree storage."""

from __future__ import annotations

from mangrove.drivers.options import Options, option

SAMPLE = """https://www.rfc-editor.org/rfc/rfc9110.txt
https://www.rfc-editor.org/rfc/rfc9112.txt
standards:
  http-semantics.txt:https://www.rfc-editor.org/rfc/rfc9110.txt
  http-caching.txt:https://www.rfc-editor.org/rfc/rfc9111.txt"""


class UrlTreeOptions(Options):
    url_structure: str = option(
        SAMPLE, required=True, type="text", help="structure:FolderName:\n  [FileName:][FileSize:][Modified:]Url"
    )
    head_size: bool = option(False, help="Request the size of files with HEAD. Some servers do not answer it.")
    writable: bool = option(False)
    allowed_hosts: str = option(
        "",
        help="Host names, addresses and networks outside the public internet that may be reached, "
        "separated by commas or spaces.",
    )
