"""`login` and `logout`, and the commands that administrate users and tokens."""

from __future__ import annotations

import secrets

from mangrove.client import Client, ClientError
from mangrove.client.models import UserRow
from mangrove.client.operations import RIGHTS
from mangrove.commands import tokens
from mangrove.commands.context import Context, read_secret
from mangrove.commands.output import Status

ROLES = {0: "user", 1: "guest", 2: "administrator"}
RANDOM_PASSWORD_BYTES = 12
SECOND_FACTOR_REQUIRED = 402


def login(context: Context) -> int:
    """Sign in with a password, or take a token from standard input, and store it."""
    client, options = context.client, context.options
    _require_address(context)
    if options.with_token:
        client.token = read_secret("Token")
    else:
        password = read_secret(f"Password of {options.user}")
        try:
            client.login(options.user, password)
        except ClientError as error:
            if error.code != SECOND_FACTOR_REQUIRED:
                raise
            client.login(options.user, password, read_secret("Code of the second factor"))
    name = client.me()["username"]
    file = tokens.write(client.address, client.token)
    context.output.print_result(f"Signed in as {name}; the token is in {file}", username=name, file=str(file))
    return Status.DONE


def logout(context: Context) -> int:
    """End the session, if it is one, and forget the token."""
    _require_address(context)
    try:
        context.client.auth_logout()
    except ClientError as error:
        if not error.is_denied:  # a token of `/@profile` is no session, and an ended session is no failure
            raise
    tokens.write(context.client.address, "")
    context.output.print_result("Signed out", address=context.client.address)
    return Status.DONE


def _require_address(context: Context) -> None:
    if not context.options.url:
        raise ClientError("name the service: --url https://files.example.org")


def list_users(context: Context) -> int:
    """Print all users."""
    rows = [{**row, "role": ROLES.get(row["role"], str(row["role"]))} for row in _read_users(context.client)]
    for row in rows:
        row["rights"] = _list_rights(int(str(row["permission"])))
    context.output.print_rows(rows, ("id", "username", "role", "base_path", "disabled", "rights"))
    return Status.DONE


def _read_users(client: Client) -> list[UserRow]:
    return client.admin_user_list(page="1", per_page="0")["content"]


def _list_rights(permission: int) -> list[str]:
    return [name for name, bit in RIGHTS.items() if permission & bit]


def add_user(context: Context) -> int:
    """Create a user."""
    options = context.options
    password, is_random = _choose_password(options.name)
    permission = sum({RIGHTS[name] for name in options.right})
    context.client.admin_user_create(
        username=options.name, password=password, base_path=options.base_path, permission=permission, role=0
    )
    _print_password(context, options.name, password if is_random else "", f"The user {options.name} is created")
    return Status.DONE


def set_password(context: Context) -> int:
    """Set the password of a user; their sessions end."""
    password, is_random = _choose_password(context.options.name)
    _update(context, password=password)
    name = context.options.name
    _print_password(context, name, password if is_random else "", f"The password of {name} is changed")
    return Status.DONE


def _choose_password(name: str) -> tuple[str, bool]:
    """Return the password that is typed, or else a random one, and True for a random one."""
    password = read_secret(f"Password for {name}, empty for a random one")
    return (password, False) if password else (secrets.token_urlsafe(RANDOM_PASSWORD_BYTES), True)


def _print_password(context: Context, name: str, password: str, text: str) -> None:
    shown = {"password": password} if password else {}
    context.output.print_result(text + (f", with the password {password}" if password else ""), username=name, **shown)


def disable_user(context: Context) -> int:
    """Disable a user."""
    return _set_disabled(context, True)


def enable_user(context: Context) -> int:
    """Enable a user."""
    return _set_disabled(context, False)


def _set_disabled(context: Context, disabled: bool) -> int:
    _update(context, disabled=disabled)
    name = context.options.name
    context.output.print_result(f"{name} is {'disabled' if disabled else 'enabled'}", username=name, disabled=disabled)
    return Status.DONE


def delete_user(context: Context) -> int:
    """Delete a user."""
    row = _find_user(context)
    context.client.admin_user_delete(id=row["id"])
    context.output.print_result(f"{row['username']} is deleted", username=row["username"])
    return Status.DONE


def _find_user(context: Context) -> UserRow:
    name = context.options.name
    for row in _read_users(context.client):
        if row["username"] == name:
            return row
    raise ClientError(f"there is no user {name}", problem="NotFound")


def _update(context: Context, password: str = "", disabled: bool | None = None) -> None:
    row = _find_user(context)
    context.client.admin_user_update(
        id=row["id"], username=row["username"], base_path=row["base_path"], role=row["role"],
        permission=row["permission"], disabled=row["disabled"] if disabled is None else disabled,
        sso_id=row["sso_id"], allow_ldap=row["allow_ldap"], password=password,
    )  # fmt: skip


def list_tokens(context: Context) -> int:
    """Print the tokens of the caller."""
    rows = context.client.me_token_list()["content"]
    context.output.print_rows(rows, ("id", "title", "folder", "mode", "protocols", "expires", "last_used_time"))
    return Status.DONE


def create_token(context: Context) -> int:
    """Create a token and print it."""
    options = context.options
    row = context.client.me_token_create(
        title=options.title, folder=options.folder, mode=options.mode, protocols=options.protocol or ["api"],
        expires=options.expires,
    )  # fmt: skip
    context.output.print_result(row["token"], **row)
    return Status.DONE


def delete_token(context: Context) -> int:
    """Delete a token."""
    context.client.me_token_delete(id=context.options.id)
    context.output.print_result("deleted", id=context.options.id)
    return Status.DONE
