"""Which page `mangrove serve` shows: our own as it was built, another front end, or none."""

from __future__ import annotations

from pathlib import Path

from mangrove.standalone.template import ROOT
from mangrove.web.page import Page

BUILT = ROOT / "page" / "dist"
NONE = "none"


def open_page(wanted: str) -> Page | None:
    """The page for the option `--page`: a folder, "none", or "" for our own where it is built.

    Raises ValueError when a folder has no front end.
    """
    if wanted == NONE or not (wanted or (BUILT / "index.html").exists()):
        return None
    folder = Path(wanted).resolve() if wanted else BUILT
    return Page(folder, is_ours=folder == BUILT)
