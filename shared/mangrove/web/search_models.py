"""Bodies and answers of the search, as they are validated and documented, and their conversion."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from mangrove.configuration.values import Settings
from mangrove.core.http import WHOLE_DAY, parse_moment
from mangrove.core.problems import BadRequest
from mangrove.search.find import HitPage
from mangrove.search.query import Filters, Hit
from mangrove.search.words import parse, parse_extensions
from mangrove.tree.listing.rows import format_time, get_type_code
from mangrove.web.fields import Count, PageNumber, PageSize, Password, Path, Text
from mangrove.web.flavours import ApiFlavour
from mangrove.web.framework import Body, Model

MAX_ROWS_PER_PAGE = 1000
MAX_ROW_NUMBER = 2**53
Size = Annotated[int, Field(ge=0, le=2**53)]


class SearchReq(Body):
    parent: Path = Field("", description="The folder to search, including its subfolders.")
    keywords: str = Field(
        "", max_length=100_000, description="Words of the name, in any order; `*` and `?` are wildcards."
    )
    scope: Count = Field(0, description="0 for everything, 1 for folders, otherwise files.")
    page: PageNumber = Field(0, description="The page to return, from 1. It has to be given.")
    per_page: PageSize = Field(0, description=f"Hits per page, from 1 to {MAX_ROWS_PER_PAGE}. It has to be given.")
    password: Password = ""
    ext: Text = Field("", description="Extensions of files, separated by commas.")
    min_size: Size | None = Field(None, description="Minimum size of a file in bytes.")
    max_size: Size | None = Field(None, description="Maximum size of a file in bytes.")
    since: Text = Field(
        "", description="Earliest modification: a date or time in RFC 3339 format; UTC if it has no offset."
    )
    until: Text = Field(
        "", description="Latest modification: a date or time in RFC 3339 format; UTC if it has no offset."
    )

    def get_start(self) -> int:
        """Return the number of the page's first row. Raise BadRequest if there is no such page."""
        if self.page < 1:
            raise BadRequest("page can't < 1")
        if self.per_page < 1:
            raise BadRequest("per_page can't < 1")
        if self.per_page > MAX_ROWS_PER_PAGE:
            raise BadRequest(f"per_page can't > {MAX_ROWS_PER_PAGE}")
        return min((self.page - 1) * self.per_page, MAX_ROW_NUMBER)

    def to_filters(self) -> Filters:
        """Return the filters. Raise BadRequest if a field cannot be parsed."""
        return Filters(
            parse(self.keywords),
            self.scope,
            parse_extensions(self.ext.split(",")),
            self.min_size,
            self.max_size,
            parse_moment("since", self.since),
            parse_moment("until", self.until, WHOLE_DAY),
        )


class SearchRow(Model):
    parent: str = Field(description="The folder that contains it, as a path of the whole tree or of a share link.")
    name: str = Field(description="Name.")
    is_dir: bool = Field(description="True for a folder.")
    size: int = Field(description="Size in bytes; 0 for a folder.")
    type: int = Field(description="1 folder, 2 video, 3 audio, 4 text, 5 image, 0 anything else.")
    modified: datetime = Field(description="Time of the last change.")


class SearchPage(Model):
    content: list[SearchRow] = Field(description="Entries of this page, in order.")
    total: int = Field(description="Number of entries on all pages.")
    indexing: bool = Field(
        default=False,
        description="True while the first index of a storage is being built: there may be more hits. Absent "
        "otherwise, and for clients of `/openlist`.",
    )


class ChangerReq(Body):
    path: Path = Field("", description="The file.")
    password: Password = ""


class Changer(Model):
    username: str = Field(
        description="Name of the user who changed the file last; empty for a folder, and if it is not known: the file "
        "was changed by another program, by a visitor of a share link, or before the index recorded it."
    )


def make_page(result: HitPage, settings: Settings, flavour: ApiFlavour) -> dict[str, Any]:
    """Return the answer of `fs/search`. `parent` is a path of the whole tree, whatever the user's root.

    For a visitor of a share link, it is `/@s/<id>[/…]`.
    """
    page = {"content": [_make_row(settings.type_codes, hit) for hit in result.hits], "total": result.total}
    return page | ({"indexing": True} if result.is_partial and flavour is ApiFlavour.NATIVE else {})


def _make_row(codes: Any, hit: Hit) -> dict[str, Any]:
    return {
        "parent": hit.parent,
        "name": hit.name,
        "is_dir": hit.is_dir,
        "size": hit.size or 0,
        "type": get_type_code(codes, hit.name, hit.is_dir),
        "modified": format_time(hit.modified),
    }
