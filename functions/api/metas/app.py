"""Administration of per-path rules and of the locks of WebDAV clients."""

from __future__ import annotations

from dataclasses import asdict

from mangrove.configuration import metas, users
from mangrove.core.problems import ResourceNotFound
from mangrove.records import metas as records
from mangrove.records.files import locks
from mangrove.records.metas import Meta
from mangrove.web import dialects, models
from mangrove.web.api import Api, make_lambda_handler
from mangrove.web.binding import Id, RequiredText, require_fields
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


@api.get("/api/admin/lock/list", data_model=models.Rows[models.LockRow])
def list_locks(who: Admin, page: Page) -> Reply:
    """The locks that WebDAV clients hold, by path."""
    found = locks.find_all()
    rows = [dialects.format_lock(lock, users.get(lock.user_id)) for lock in page.slice(found)]
    return ok({"content": rows, "total": len(found)})


@api.post("/api/admin/lock/delete")
def delete_lock(who: Admin, token: RequiredText = "") -> Reply:
    """Remove a lock of anybody; its client is told at its next request that it has none."""
    lock = next((lock for lock in locks.find_all() if lock.token == token), None)
    if lock is None or not locks.release(lock):
        raise ResourceNotFound("lock not found")
    return ok()


app = api.app
handler = make_lambda_handler(app)
