"""Administration of per-path rules."""

from __future__ import annotations

from dataclasses import asdict

from mangrove.configuration import metas
from mangrove.records import metas as records
from mangrove.records.metas import Meta
from mangrove.web import models
from mangrove.web.api import Api, make_lambda_handler
from mangrove.web.binding import Id, require_fields
from mangrove.web.envelope import Reply, ok
from mangrove.web.gates import Admin, Page

api = Api("metas")


@api.get("/api/admin/meta/list", data_model=models.Rows[models.MetaReq])
def list_(who: Admin, page: Page) -> Reply:
    """All rules."""
    rows = [asdict(meta) for meta in records.all()]
    return ok({"content": page.slice(rows), "total": len(rows)})


@api.get("/api/admin/meta/get", data_model=models.MetaReq)
def get(who: Admin, id: Id) -> Reply:
    """One rule."""
    return ok(asdict(metas.get(id)))


@api.post("/api/admin/meta/create")
def create(who: Admin, body: models.MetaReq) -> Reply:
    """Make a rule for a path."""
    require_fields(path=body.path)
    metas.create(Meta(**body.model_dump()))
    return ok()


@api.post("/api/admin/meta/update")
def update(who: Admin, body: models.MetaReq) -> Reply:
    """Replace a rule."""
    require_fields(path=body.path)
    metas.update(Meta(**body.model_dump()))
    return ok()


@api.post("/api/admin/meta/delete")
def delete(who: Admin, id: Id) -> Reply:
    """Remove a rule."""
    metas.delete(id)
    return ok()


app = api.app
handler = make_lambda_handler(app)
