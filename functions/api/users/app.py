"""Administration of users and groups, their SSH keys and application passwords."""

from __future__ import annotations

from typing import Annotated

from mangrove import configuration
from mangrove.core.problems import Problem, RecordNotFound, ResourceNotFound
from mangrove.identity import accounts, groups, sessions, tokens
from mangrove.identity.rights import Caller
from mangrove.records import groups as group_records
from mangrove.records import users
from mangrove.records.credentials import app_passwords as app_password_records
from mangrove.records.credentials import ssh_keys
from mangrove.records.passkeys import passkeys as passkey_records
from mangrove.records.users import User
from mangrove.tree import audit
from mangrove.tree.audit import AuditAction
from mangrove.web import account_models, flavours, models
from mangrove.web.api import Api, make_lambda_handler
from mangrove.web.audit_models import AuditReq, AuditRows, format_audit_page
from mangrove.web.envelope import Reply, ok
from mangrove.web.framework import Id, Query, RecordId, Request, parse_id, require_fields, require_in_query
from mangrove.web.gates import Admin, ClientAddress, Page, PresentCode, RequestFlavour
from mangrove.web.sessions import EvictSessionReq, SessionRow, format_sessions

api = Api("users")
SessionsUserId = Annotated[str, Query(description="Id of the user; empty for all users.")]
UserId = Annotated[str, require_in_query("Id of the user.", "integer")]
Username = Annotated[str, require_in_query("Name that the user signs in with.")]


def _make_fields(body: models.UserReq) -> accounts.UserFields:
    return accounts.UserFields(**body.model_dump(exclude={"id", "password"}))


@api.get("/api/admin/user/list", data_model=models.Rows[models.UserRow])
def list_(who: Admin, page: Page) -> Reply:
    """List all users."""
    page_users, total = users.list_page(page.start, page.per_page or None)
    return ok({"content": [flavours.format_user(user) for user in page_users], "total": total})


@api.get("/api/admin/user/get", data_model=models.UserRow)
def get(who: Admin, id: Id) -> Reply:
    """Return a user."""
    return ok(flavours.format_user(accounts.get(id)))


@api.post("/api/admin/user/create")
def create(who: Admin, body: models.UserReq) -> Reply:
    """Create an ordinary user; without a password nobody can sign in as that user."""
    require_fields(username=body.username)
    accounts.create(_make_fields(body), body.password)
    audit.record(who, AuditAction.USER_CREATE, body.username)
    return ok()


@api.post("/api/admin/user/update")
def update(who: Admin, body: models.UserReq) -> Reply:
    """Replace the record of a user; an empty password keeps the old one."""
    require_fields(username=body.username)
    accounts.update(body.id, _make_fields(body), body.password)
    audit.record(who, AuditAction.USER_UPDATE, body.username)
    return ok()


@api.post("/api/admin/user/cancel_2fa")
def cancel_2fa(who: Admin, request: Request, id: Id, present_code: PresentCode, client_address: ClientAddress) -> Reply:
    """Switch off the second factor of a user; for oneself, a current code is required."""
    session = tokens.read_header(request.headers)
    own_session = session if id == who.user.id and tokens.is_session(session) else ""
    accounts.cancel_second_factor(id, own_session, present_code, client_address)
    audit.record(who, AuditAction.SECOND_FACTOR_REMOVE, accounts.get(id).username)
    return ok()


@api.post("/api/admin/user/delete")
def delete(who: Admin, id: Id) -> Reply:
    """Delete an ordinary user with their sessions, keys, application passwords and passkeys."""
    username = accounts.get(id).username
    accounts.delete(id)
    for credentials in (ssh_keys, app_password_records, passkey_records):
        credentials.delete_all(id)
    audit.record(who, AuditAction.USER_DELETE, username)
    return ok()


@api.post("/api/admin/user/del_cache")
def del_cache(who: Admin, username: Username = "") -> Reply:
    """Read a user again; no stale record stays in the cache."""
    if not username:
        raise Problem("username is empty")
    configuration.reload()
    if users.find(username) is None:
        raise RecordNotFound("failed find user: record not found")
    return ok()


def _parse_user(uid: str) -> int:
    """Parse the id of a user. ResourceNotFound if there is no such user."""
    return _find_user(uid).id


def _find_user(uid: str) -> User:
    user = users.find_by_id(parse_id(uid, "user id format invalid"))
    if user is None:
        raise ResourceNotFound("user invalid")
    return user


@api.get("/api/admin/session/list", data_model=list[SessionRow])
def list_sessions(who: Admin, request: Request, uid: SessionsUserId = "") -> Reply:
    """List open sessions, the last used first: of all users, or of one."""
    rows = sessions.list_of(_find_user(uid)) if uid else sessions.list_all(users.find)
    return ok(format_sessions(rows, request))


@api.post("/api/admin/session/evict")
def evict_session(who: Admin, body: EvictSessionReq) -> Reply:
    """End a session of any user."""
    require_fields(session_id=body.session_id)
    username = sessions.end(body.session_id)
    audit.record(who, AuditAction.SESSION_END, username)
    return ok()


@api.post("/api/admin/session/evict_all")
def evict_all_sessions(who: Admin, request: Request, uid: UserId = "") -> Reply:
    """End all sessions of a user, except that of this request."""
    owner = _find_user(uid)
    accounts.end_sessions(owner.id, tokens.read_header(request.headers) if owner.id == who.user.id else "")
    audit.record(who, AuditAction.SESSIONS_END, owner.username)
    return ok()


@api.get("/api/admin/user/sshkey/list", data_model=models.Rows[models.SshKeyRow])
def list_keys(who: Admin, flavour: RequestFlavour, uid: UserId = "") -> Reply:
    """List the SSH keys of a user."""
    owner = _parse_user(uid)
    rows = [flavours.format_sshkey(key, flavour) for key in ssh_keys.find_by_user(owner)]
    return ok({"content": rows, "total": len(rows)})


@api.post("/api/admin/user/sshkey/delete")
def delete_key(who: Admin, id: RecordId = "") -> Reply:
    """Delete an SSH key of any user."""
    key_id = parse_id(id, "id format invalid")
    ssh_keys.delete_any(key_id)
    audit.record(who, AuditAction.SSH_KEY_DELETE, f"#{key_id}")
    return ok()


@api.get("/api/admin/user/app_password/list", data_model=models.Rows[models.AppPasswordRow])
def list_app_passwords(who: Admin, uid: UserId = "") -> Reply:
    """List the application passwords of a user, without their texts."""
    passwords = app_password_records.find_by_user(_parse_user(uid))
    return ok({"content": [flavours.format_credential(password) for password in passwords], "total": len(passwords)})


@api.post("/api/admin/user/app_password/delete")
def delete_app_password(who: Admin, id: RecordId = "") -> Reply:
    """Delete an application password of any user; its sessions end."""
    _delete_token(who, id)
    return ok()


def _delete_token(who: Caller, id: str) -> None:
    token_id = parse_id(id, "id format invalid")
    app_password_records.delete_any(token_id)
    audit.record(who, AuditAction.TOKEN_DELETE, f"#{token_id}")


@api.get("/api/admin/user/token/list", data_model=models.Rows[account_models.TokenRow])
def list_tokens(who: Admin, uid: UserId = "") -> Reply:
    """List the tokens of a user, without their texts."""
    rows = app_password_records.find_by_user(_parse_user(uid))
    return ok({"content": [account_models.format_token(token) for token in rows], "total": len(rows)})


@api.post("/api/admin/user/token/delete")
def delete_token(who: Admin, id: RecordId = "") -> Reply:
    """Delete a token of any user; its sessions end, and its tasks fail."""
    _delete_token(who, id)
    return ok()


@api.read("/api/admin/audit/list", data_model=AuditRows)
def list_audit(who: Admin, body: AuditReq) -> Reply:
    """List sign-ins and changes of accounts, storages, settings, rules and share links, the last first."""
    return ok(format_audit_page(body.find()))


@api.get("/api/admin/group/list", data_model=models.Rows[account_models.GroupRow])
def list_groups(who: Admin, page: Page) -> Reply:
    """List all groups."""
    rows = group_records.all()
    return ok({"content": [account_models.format_group(group) for group in page.slice(rows)], "total": len(rows)})


@api.get("/api/admin/group/get", data_model=account_models.GroupRow)
def get_group(who: Admin, id: Id) -> Reply:
    """Return a group."""
    return ok(account_models.format_group(groups.get(id)))


@api.post("/api/admin/group/create", data_model=account_models.GroupRow)
def create_group(who: Admin, body: account_models.GroupReq) -> Reply:
    """Create a group."""
    require_fields(name=body.name)
    group = groups.create(body.to_fields())
    audit.record(who, AuditAction.GROUP_CREATE, group.name)
    return ok(account_models.format_group(group))


@api.post("/api/admin/group/update", data_model=account_models.GroupRow)
def update_group(who: Admin, body: account_models.GroupReq) -> Reply:
    """Replace the record of a group."""
    require_fields(name=body.name)
    group = groups.update(body.id, body.to_fields())
    audit.record(who, AuditAction.GROUP_UPDATE, group.name)
    return ok(account_models.format_group(group))


@api.post("/api/admin/group/delete")
def delete_group(who: Admin, id: Id) -> Reply:
    """Delete a group; rules that name it still do."""
    name = groups.get(id).name
    groups.delete(id)
    audit.record(who, AuditAction.GROUP_DELETE, name)
    return ok()


app = api.app
handler = make_lambda_handler(app)
