"""Share links: create, list, change and delete them; the page of each."""

from __future__ import annotations

from typing import Annotated, Any

from starlette.responses import HTMLResponse, Response

from mangrove.tree.sharing import administration
from mangrove.web import models
from mangrove.web import share_models as wire
from mangrove.web.api import Api, make_lambda_handler
from mangrove.web.envelope import Reply, ok
from mangrove.web.framework import Path, Request, require_in_query
from mangrove.web.gates import Anyone, Paging, Sharer
from mangrove.web.page import show
from mangrove.web.share_preview import make_meta_tags

api = Api("shares")
SharePath = Annotated[str, Path(description="Id of a share link, and a path in the share.")]
PAGE: dict[str, Any] = {
    "response_class": HTMLResponse,
    "responses": {404: {"description": "There is no page"}},
}
ShareId = Annotated[str, require_in_query("Id of the share link.")]


@api.read("/api/share/list", data_model=models.Rows[wire.ShareRow])
def list_(who: Sharer, body: wire.SharePageReq) -> Reply:
    """List the caller's share links; an administrator gets all."""
    entries, total = administration.list_page(who, Paging(body.page, body.per_page).slice)
    return ok({"content": [wire.format_share(entry) for entry in entries], "total": total})


@api.get("/api/share/get", data_model=wire.ShareRow)
def get(who: Sharer, id: ShareId = "") -> Reply:
    """Return a share link of the caller; an administrator gets any."""
    return ok(wire.format_share(administration.get(who, id)))


@api.post("/api/share/create", data_model=wire.ShareRow)
async def create(who: Sharer, body: wire.ShareReq) -> Reply:
    """Create a share link, with a random id unless one is chosen."""
    entry = await administration.create(who, body.id, body.creator, body.to_fields(), body.accessed)
    return ok(wire.format_share(entry))


@api.post("/api/share/update", data_model=wire.ShareRow)
async def update(who: Sharer, body: wire.ShareUpdateReq) -> Reply:
    """Replace the fields of a share link; absent ones get their defaults."""
    fields = body.to_fields()
    entry = await administration.update(who, body.id, body.new_id, body.creator, fields, body.accessed)
    return ok(wire.format_share(entry))


@api.post("/api/share/delete")
def delete(who: Sharer, id: ShareId = "") -> Reply:
    """Delete a share link."""
    administration.delete(who, id)
    return ok()


@api.post("/api/share/enable")
def enable(who: Sharer, id: ShareId = "") -> Reply:
    """Enable a share link."""
    administration.set_disabled(who, id, False)
    return ok()


@api.post("/api/share/disable")
def disable(who: Sharer, id: ShareId = "") -> Reply:
    """Disable a share link: nobody can open it until it is enabled."""
    administration.set_disabled(who, id, True)
    return ok()


@api.get("/@s/{path:path}", **PAGE)
@api.route("HEAD", "/@s/{path:path}", summary="Show Page Head", **PAGE)
async def show_page(who: Anyone, path: SharePath, request: Request) -> Response:
    """Return the page of a share link, with its title for sites that show a preview of the address."""
    return await show(request.scope, await make_meta_tags(request))


app = api.app
handler = make_lambda_handler(app)
