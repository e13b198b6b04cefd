"""Search: names in all storages; administration of the index."""

from __future__ import annotations

from typing import Annotated

from mangrove.core.limits import limits
from mangrove.search import find
from mangrove.tasks.index import indexing
from mangrove.tree import access
from mangrove.web import models, search_models
from mangrove.web.api import Api, make_lambda_handler
from mangrove.web.envelope import Reply, ok
from mangrove.web.framework import Query
from mangrove.web.gates import Admin, Reader, name_caller
from mangrove.web.parameters import ClientAddress, RequestDialect

api = Api("search")


@api.post("/api/fs/search", data_model=search_models.SearchPage)
async def search(
    who: Reader, body: search_models.SearchReq, client_address: ClientAddress, dialect: RequestDialect
) -> Reply:
    """Names in the folder and below it that fit."""
    part, filters = body.to_part(), body.to_filters()
    folder = await access.at(who, body.parent, body.password)
    async with limits().searches.hold(name_caller(who, client_address)):
        found = await find.find(folder, filters, part.start, part.count)
    await indexing.request_build(found.missing)
    await indexing.request_update(found.behind)
    return ok(search_models.make_page(found, folder.settings, dialect))


@api.get("/api/fs/search", data_model=search_models.SearchPage)
async def search_by_query(
    who: Reader,
    query: Annotated[search_models.SearchQuery, Query()],
    client_address: ClientAddress,
    dialect: RequestDialect,
) -> Reply:
    """Names in the folder and below it that fit."""
    return await search(who, query.to_body(), client_address, dialect)


@api.post("/api/admin/index/build")
async def build(who: Admin) -> Reply:
    """Build the index of names anew."""
    await indexing.build_all()
    return ok()


@api.post("/api/admin/index/update")
async def update(who: Admin, body: models.IndexUpdateReq) -> Reply:
    """Bring the index up to date below some folders."""
    await indexing.update(body.paths, body.max_depth)
    return ok()


@api.post("/api/admin/index/stop")
async def stop(who: Admin) -> Reply:
    """Stop the building of the index."""
    await indexing.stop()
    return ok()


@api.post("/api/admin/index/clear")
async def clear(who: Admin) -> Reply:
    """Throw the index away."""
    await indexing.clear()
    return ok()


@api.get("/api/admin/index/progress", data_model=models.IndexProgress)
async def progress(who: Admin) -> Reply:
    """How far the building of the index is."""
    return ok(await indexing.read_progress())


app = api.app
handler = make_lambda_handler(app)
