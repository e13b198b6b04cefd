"""`login` and `logout`: store a token for an address, and remove it."""

from __future__ import annotations

from mangrove.client import ClientError
from mangrove.commands import tokens
from mangrove.commands.context import Context, read_secret
from mangrove.commands.output import Status

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
