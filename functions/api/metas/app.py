"""Administration of per-path rules and of the locks of WebDAV clients."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from mangrove.configuration import metas, users
from mangrove.core.problems import ResourceNotFound
from mangrove.records import metas as records
from mangrove.records import webdav_locks
from mangrove.records.metas import PathRule
from mangrove.tree import audit
from mangrove.tree.audit import AuditAction
from mangrove.web import flavours, models
from mangrove.web.api import Api, make_lambda_handler
from mangrove.web.envelope import Reply, ok
from mangrove.web.framework import Id, require_fields, require_in_query
from mangrove.web.gates import Admin, Page

api = Api("metas")
LockToken = Annotated[str, require_in_query("Token of the lock.")]


@api.get("/api/admin/meta/list", data_model=models.Rows[models.MetaReq])
def list_(who: Admin, page: Page) -> Reply:
    """List all rules."""
    rows = [asdict(meta) for meta in records.all()]
    return ok({"content": page.slice(rows), "total": len(rows)})


@api.get("/api/admin/meta/get", data_model=models.MetaReq)
def get(who: Admin, id: Id) -> Reply:
    """Return a rule."""
    return ok(asdict(metas.get(id)))


@api.post("/api/admin/meta/create")
def create(who: Admin, body: models.MetaReq) -> Reply:
    """Create a rule for a path."""
    require_fields(path=body.path)
    rule = metas.create(PathRule(**body.model_dump()))
    audit.record(who, AuditAction.RULE_CREATE, rule.path)
    return ok()


@api.post("/api/admin/meta/update")
def update(who: Admin, body: models.MetaReq) -> Reply:
    """Replace a rule."""
    require_fields(path=body.path)
    rule = metas.update(PathRule(**body.model_dump()))
    audit.record(who, AuditAction.RULE_UPDATE, rule.path)
    return ok()


@api.post("/api/admin/meta/delete")
def delete(who: Admin, id: Id) -> Reply:
    """Delete a rule."""
    path = metas.get(id).path
    metas.delete(id)
    audit.record(who, AuditAction.RULE_DELETE, path)
    return ok()


@api.get("/api/admin/lock/list", data_model=models.Rows[models.LockRow])
def list_locks(who: Admin, page: Page) -> Reply:
    """List the locks of WebDAV clients, by path."""
    all_locks = webdav_locks.find_all()
    rows = [flavours.format_lock(lock, users.get(lock.user_id)) for lock in page.slice(all_locks)]
    return ok({"content": rows, "total": len(all_locks)})


@api.post("/api/admin/lock/delete")
def delete_lock(who: Admin, token: LockToken = "") -> Reply:
    """Delete a lock of any user; its client learns that at its next request."""
    lock = next((lock for lock in webdav_locks.find_all() if lock.token == token), None)
    if lock is None or not webdav_locks.release(lock):
        raise ResourceNotFound("lock not found")
    audit.record(who, AuditAction.LOCK_DELETE, lock.path)
    return ok()


app = api.app
handler = make_lambda_handler(app)
