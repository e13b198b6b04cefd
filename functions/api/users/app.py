"""Administration of users and their SSH keys."""

from __future__ import annotations

from mangrove.identity import accounts, keys
from mangrove.problems import BadRequest, Missing, Problem
from mangrove.records import sshkeys, users
from mangrove.site import snapshot
from mangrove.web import dialects, models
from mangrove.web.api import Api, lambda_handler
from mangrove.web.binding import Id, Name, Number, required, whole
from mangrove.web.envelope import Reply, ok
from mangrove.web.gates import Admin, Dialect, Page

api = Api("users")


def _fields(body: models.UserReq) -> accounts.UserFields:
    return accounts.UserFields(**body.model_dump(exclude={"id", "password"}))


@api.get("/api/admin/user/list", gives=models.Rows[models.UserRow])
def list_(who: Admin, page: Page) -> Reply:
    rows = [dialects.user(user) for user in users.all()]
    return ok({"content": page.cut(rows), "total": len(rows)})


@api.get("/api/admin/user/get", gives=models.UserRow)
def get(who: Admin, id: Id) -> Reply:
    return ok(dialects.user(accounts.get(id)))


@api.post("/api/admin/user/create")
def create(who: Admin, body: models.UserReq) -> Reply:
    required("User", Username=body.username)
    accounts.create(_fields(body), body.password)
    return ok()


@api.post("/api/admin/user/update")
def update(who: Admin, body: models.UserReq) -> Reply:
    required("User", Username=body.username)
    accounts.update(body.id, _fields(body), body.password)
    return ok()


@api.post("/api/admin/user/cancel_2fa")
def cancel_2fa(who: Admin, id: Id) -> Reply:
    users.change(accounts.get(id).id, otp_secret="")
    return ok()


@api.post("/api/admin/user/delete")
def delete(who: Admin, id: Id) -> Reply:
    accounts.delete(id)
    for key in sshkeys.find_by_user(id):
        keys.delete(key.id)
    return ok()


@api.post("/api/admin/user/del_cache")
def del_cache(who: Admin, username: Name = "") -> Reply:
    if not username:
        raise Problem("username is empty")
    if username not in snapshot.refresh().users:
        raise Problem("failed find user: record not found")
    return ok()


@api.get("/api/admin/user/sshkey/list", gives=models.Rows[models.SshKeyRow])
def list_keys(who: Admin, dialect: Dialect, uid: Number = "") -> Reply:
    try:
        owner = whole(uid)
    except BadRequest:
        raise BadRequest("user id format invalid") from None
    if all(user.id != owner for user in snapshot.current().users.values()):
        raise Missing("user invalid")
    rows = [dialects.sshkey(key, dialect) for key in sshkeys.find_by_user(owner)]
    return ok({"content": rows, "total": len(rows)})


@api.post("/api/admin/user/sshkey/delete")
def delete_key(who: Admin, id: Number = "") -> Reply:
    try:
        number = whole(id)
    except BadRequest:
        raise BadRequest("id format invalid") from None
    keys.delete(number)
    return ok()


app = api.app
handler = lambda_handler(app)
