"""Bodies and answers of the search, as validated and as shown in the OpenAPI document, and what they say."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from pydantic import BaseModel, Field

from mangrove.configuration.values import Settings
from mangrove.core.problems import BadRequest
from mangrove.search.find import Found
from mangrove.search.query import Filters, Hit
from mangrove.search.words import parse, parse_extensions
from mangrove.tree.operations.objects import format_time, get_type_code
from mangrove.web.binding import Body, Model
from mangrove.web.dialects import Dialect
from mangrove.web.fs_models import Count, PathText, QueryModel, Text

MOST_ROWS = 1000  # of one page
LAST_ROW = 2**53  # nobody has more names
WHOLE_DAY = timedelta(days=1, microseconds=-1)
Keywords = Annotated[str, Field(max_length=100_000)]
Size = Annotated[int, Field(ge=0, le=2**53)]


@dataclass(frozen=True, slots=True)
class Part:
    """Which of the hits are wanted: `count` from `start` on."""

    start: int
    count: int


class SearchFields(BaseModel):
    """`scope`: 0 all, 1 folders, else files. `ext`: extensions with commas between them. `since` and `until`: when it
    was modified, both included; a date or a time as in RFC 3339, in UTC where it says nothing else."""

    parent: PathText = ""
    keywords: Keywords = ""
    scope: Count = 0
    page: Count = 0
    per_page: Count = 0
    password: Text = ""
    ext: Text = ""
    min_size: Size | None = None
    max_size: Size | None = None
    since: Text = ""
    until: Text = ""


class SearchReq(Body, SearchFields):
    def to_part(self) -> Part:
        """BadRequest when the page is none."""
        if self.page < 1:
            raise BadRequest("page can't < 1")
        if self.per_page < 1:
            raise BadRequest("per_page can't < 1")
        if self.per_page > MOST_ROWS:
            raise BadRequest(f"per_page can't > {MOST_ROWS}")
        return Part(min((self.page - 1) * self.per_page, LAST_ROW), self.per_page)

    def to_filters(self) -> Filters:
        """BadRequest when it is not to be understood."""
        return Filters(
            parse(self.keywords),
            self.scope,
            parse_extensions(self.ext.split(",")),
            self.min_size,
            self.max_size,
            parse_moment("since", self.since),
            parse_moment("until", self.until, WHOLE_DAY),
        )


class SearchQuery(QueryModel, SearchFields):
    """The same as query text, for GET."""

    def to_body(self) -> SearchReq:
        return SearchReq(**self.model_dump())


class SearchRow(Model):
    parent: str
    name: str
    is_dir: bool
    size: int
    type: int
    modified: datetime


class SearchPage(Model):
    content: list[SearchRow]
    total: int
    indexing: bool = Field(
        default=False,
        description="True while the first index of a storage is being built: there may be more. Left out otherwise, "
        "and for a client of `/openlist`.",
    )


def parse_moment(name: str, text: str, day: timedelta = timedelta()) -> float | None:
    """Seconds since the epoch, None for no text; of a date that moment of the `day`. BadRequest for another text."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return (moment + day if len(text) <= len("2024-01-31") else moment).timestamp()
    except (ValueError, OverflowError):
        raise BadRequest(f"{name}: not a time as in RFC 3339: {text[:40]}") from None


def make_page(found: Found, settings: Settings, dialect: Dialect) -> dict[str, Any]:
    """Return the answer of `fs/search`. `parent` is an absolute path, also where the user's root is a folder of it."""
    page = {"content": [_make_row(settings.type_codes, hit) for hit in found.hits], "total": found.total}
    return page | ({"indexing": True} if found.is_partial and dialect is Dialect.DOCUMENT else {})


def _make_row(codes: Any, hit: Hit) -> dict[str, Any]:
    return {
        "parent": hit.parent,
        "name": hit.name,
        "is_dir": hit.is_dir,
        "size": hit.size or 0,
        "type": get_type_code(codes, hit.name, hit.is_dir),
        "modified": format_time(hit.modified),
    }
