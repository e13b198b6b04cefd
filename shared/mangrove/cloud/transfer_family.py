"""AWS Transfer Family in front of buckets: sign-in, and the part of the tree that its server shows.

The server accesses S3 itself, so Mangrove's rules are not evaluated later: a mount is shown only if a policy of S3
expresses the same access. That is a storage of the kind S3 in a bucket of this deployment, all of which the user may
read, with no rule on it or below that hides, locks or reserves anything from them, and with no other storage mounted
inside it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from mangrove import configuration
from mangrove.configuration import users
from mangrove.core.paths import TreePath
from mangrove.core.problems import AccessDenied, Problem, Unauthorized
from mangrove.core.telemetry import log_event
from mangrove.drivers.s3.options import find_aws_options
from mangrove.identity.rights import GUEST, Caller, Right
from mangrove.protocols.sessions import ProtocolSession, sign_in_with_password
from mangrove.protocols.sftp import SFTP
from mangrove.records.credentials import ssh_keys
from mangrove.tree import access as accesses
from mangrove.tree import audit
from mangrove.tree.access import PathAccess
from mangrove.tree.audit import AuditAction
from mangrove.tree.mounts import Mount

MAX_POLICY_LENGTH = 2048  # characters of a session's policy: the limit of AWS
WILD = frozenset("*?$")  # characters with a special meaning in a policy
MAX_FIELD_LENGTH = 1024  # characters of a name or password
REFUSED: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Shown:
    """A folder of a bucket that a user sees as `entry`. `prefix`: of its keys, "" or ending with a slash."""

    entry: str
    bucket: str
    prefix: str
    may_write: bool
    may_delete: bool

    @property
    def actions(self) -> tuple[str, ...]:
        """The actions that a session may take on the objects; the bucket's statement allows to list them."""
        more = (("s3:PutObject", self.may_write), ("s3:DeleteObject", self.may_delete))
        return ("s3:GetObject", *(action for action, is_allowed in more if is_allowed))


async def identify(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to a sign-in at a server of Transfer Family; empty to refuse."""
    fields = [event.get(name, "") for name in ("username", "password", "protocol", "sourceIp")]
    if not all(isinstance(text, str) and len(text) <= MAX_FIELD_LENGTH for text in fields) or not fields[0]:
        return _refuse("", "", "not as Transfer Family asks")
    username, password, protocol, source = fields
    if protocol != "SFTP":
        return _refuse(username, source, f"{protocol[:16]} is not served")
    try:
        session, keys = await _sign_in(username, password, source)
        shown = await find_shown(await session.find_caller(Right.WRITE))
    except Problem as problem:
        return _refuse(username, source, type(problem).__name__)
    if not shown:
        return _refuse(username, source, "nothing of the tree can be shown")
    if not keys:  # the server checks the client's key after this answer
        session.log_start()
        await asyncio.to_thread(audit.add, session.username, source, AuditAction.SIGN_IN, SFTP.name)
        if session.credential is not None:
            await asyncio.to_thread(session.credential.note_use)
    return make_answer(os.environ["MANGROVE_TRANSFER_ROLE"], shown) | ({"PublicKeys": keys} if keys else {})


def _refuse(username: str, source: str, reason: str) -> dict[str, Any]:
    log_event("sign-in refused", protocol=SFTP.name, user=username[:64], client=source, reason=reason)
    return dict(REFUSED)


async def _sign_in(username: str, password: str, source: str) -> tuple[ProtocolSession, Sequence[str]]:
    """Return the session for a password; without one, that of the account, and the keys of which the client must
    have one.
    """
    if password:
        if (await configuration.get()).settings.sftp_disable_password_login:
            raise AccessDenied
        session = await sign_in_with_password(username, password, SFTP, source)
        if (await session.find_caller()).is_guest:
            raise AccessDenied
        return session, ()
    await configuration.get()
    user = await users.find_by_name(username)
    if user is None or user.role == GUEST:
        raise Unauthorized
    session = SFTP.open_session(user, source)
    keys = await asyncio.to_thread(ssh_keys.find_by_user, user.id)
    if not keys:
        raise Unauthorized
    return session, [key.text for key in keys]


async def find_shown(caller: Caller) -> list[Shown]:
    """Return the parts of a user's tree that can be shown, as many as fit into a policy."""
    root = await accesses.at(caller, "/")
    shown: list[Shown] = []
    for access, mount in _find_mounts(root):
        folder = _show(access, mount, root.path)
        if folder is None:
            continue
        if len(make_policy([*shown, folder])) > MAX_POLICY_LENGTH:
            log_event(
                "not shown",
                protocol=SFTP.name,
                user=caller.user.username,
                path=access.path,
                reason="no room in the policy",
            )
            continue
        shown.append(folder)
    return shown


def _find_mounts(root: PathAccess) -> Iterator[tuple[PathAccess, Mount]]:
    """Yield the folders of a user's tree, each with its single storage: the storage of the base path, or all that
    are mounted below.
    """
    table = root.tree.table
    around = table.find_mounts(root.path)
    if len(around) == 1:
        yield root, around[0]
    for serving in table.by_path.values():
        path = serving[0].path
        if len(serving) == 1 and path != root.path and path.within(root.path):
            yield root.with_path(path), serving[0]


def _show(access: PathAccess, mount: Mount, base: TreePath) -> Shown | None:
    """Return the view of a mount, or of a folder in it; None if it cannot be shown."""
    table = access.tree.table
    if any(other != mount.path and TreePath(other).within(access.path) for other in table.by_path):
        return None
    if not access.may_read() or access.find_hide_rules() or access.is_restricted_below(changes=False):
        return None
    place = _find_place(mount, access.path)
    if place is None:
        return None
    bucket, prefix = place
    caller = access.caller
    may_change = caller.has(SFTP.writing) and access.may_write() and not access.is_restricted_below(changes=True)
    entry = "/" if access.path == base else str(access.path.below(base))
    return Shown(
        entry,
        bucket,
        prefix,
        may_write=may_change and access.has(Right.WRITE),
        may_delete=may_change and access.has(Right.DELETE),
    )


def _find_place(mount: Mount, path: TreePath) -> tuple[str, str] | None:
    """Return the bucket and prefix of a path of a mount; None for another kind of storage, or a foreign bucket."""
    options = find_aws_options(mount.storage.driver, mount.storage.addition)
    if options is None or options.bucket != os.environ["MANGROVE_FILES_BUCKET"]:
        return None
    prefix = str(TreePath(options.root_folder_path) / path.below(mount.path)).strip("/")
    if WILD & set(prefix):
        return None
    return options.bucket, f"{prefix}/" if prefix else ""


def make_answer(role: str, shown: Sequence[Shown]) -> dict[str, Any]:
    """Return the answer that accepts a sign-in."""
    details = [{"Entry": folder.entry, "Target": f"/{folder.bucket}/{folder.prefix}".rstrip("/")} for folder in shown]
    return {
        "Role": role,
        "Policy": make_policy(shown, role.split(":")[1]),
        "HomeDirectoryType": "LOGICAL",
        "HomeDirectoryDetails": orjson.dumps(details).decode(),
    }


def make_policy(shown: Sequence[Shown], partition: str = "aws") -> str:
    """Return the policy of the session: the user's part of the role's rights, on the shown folders."""
    places = {folder: f"arn:{partition}:s3:::{folder.bucket}" for folder in shown}
    statements: list[dict[str, Any]] = []
    for bucket in dict.fromkeys(places.values()):
        prefixes = [folder.prefix for folder in shown if places[folder] == bucket]
        statement: dict[str, Any] = {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": bucket}
        if "" not in prefixes:
            patterns = [text for prefix in prefixes for text in (prefix.rstrip("/"), f"{prefix}*")]
            statement["Condition"] = {"StringLike": {"s3:prefix": patterns}}
        statements.append(statement)
    by_actions: dict[tuple[str, ...], list[str]] = {}
    for folder, bucket in places.items():
        by_actions.setdefault(folder.actions, []).append(f"{bucket}/{folder.prefix}*")
    statements += [
        {"Effect": "Allow", "Action": actions, "Resource": resources} for actions, resources in by_actions.items()
    ]
    return orjson.dumps({"Version": "2012-10-17", "Statement": statements}).decode()
