"""What endpoints ask of a request beside its body, as parameters of their signatures."""

from __future__ import annotations

from typing import Annotated

from mangrove.web.address import find_base_url, find_client_address
from mangrove.web.dialects import Dialect, find_dialect
from mangrove.web.framework import Depends, Request

RequestDialect = Annotated[Dialect, Depends(find_dialect)]


async def _find_base_url(request: Request, dialect: RequestDialect) -> str:
    return await find_base_url(request, dialect)


BaseUrl = Annotated[str, Depends(_find_base_url)]
ClientAddress = Annotated[str, Depends(find_client_address)]
