"""Search: names in all storages; administration of the index."""

from __future__ import annotations

from mangrove.core.limits import limits
from mangrove.search import changers, find
from mangrove.tasks.index import indexing
from mangrove.tree import access
from mangrove.tree.sharing import visits
from mangrove.web import models, search_models
from mangrove.web.api import Api, make_lambda_handler
from mangrove.web.envelope import Reply, ok
from mangrove.web.gates import Admin, ClientAddress, Member, RequestFlavour, ShareReader, name_caller

api = Api("search")


@api.read("/api/fs/search", data_model=search_models.SearchPage)
async def search(
    who: ShareReader, body: search_models.SearchReq, client_address: ClientAddress, flavour: RequestFlavour
) -> Reply:
    """Search names in a folder and its subfolders."""
    start, filters = body.get_start(), body.to_filters()
    async with (
        visits.open_path(who, body.parent, body.password, "search") as folder,
        limits().searches.hold(name_caller(who, client_address)),
    ):
        result = await find.find(folder, filters, start, body.per_page)
    await indexing.request_build(result.missing)
    await indexing.request_update(result.behind)
    return ok(search_models.make_page(result, folder.tree.settings, flavour))


@api.post("/api/fs/changer", data_model=search_models.Changer)
async def changer(who: Member, body: search_models.ChangerReq, client_address: ClientAddress) -> Reply:
    """Return the user who changed a file last through the service, as far as the index knows."""
    file = await access.at(who, body.path, body.password)
    async with limits().searches.hold(name_caller(who, client_address)):
        return ok({"username": await changers.find_changer(file)})


@api.post("/api/admin/index/build", creates_tasks=True)
async def build(who: Admin) -> Reply:
    """Rebuild the index of names."""
    await indexing.build_all()
    return ok()


@api.post("/api/admin/index/update", creates_tasks=True)
async def update(who: Admin, body: models.IndexUpdateReq) -> Reply:
    """Update the index below certain folders."""
    await indexing.update(body.paths, body.max_depth)
    return ok()


@api.post("/api/admin/index/stop")
async def stop(who: Admin) -> Reply:
    """Stop building the index."""
    await indexing.stop()
    return ok()


@api.post("/api/admin/index/clear")
async def clear(who: Admin) -> Reply:
    """Delete the index."""
    await indexing.clear()
    return ok()


@api.get("/api/admin/index/progress", data_model=models.IndexProgress)
async def progress(who: Admin) -> Reply:
    """Return the progress of building the index."""
    return ok(await indexing.read_progress())


app = api.app
handler = make_lambda_handler(app)
