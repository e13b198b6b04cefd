"""`share` and `search`."""

from __future__ import annotations

import posixpath
from typing import Any

from mangrove.commands.context import Context, read_secret
from mangrove.commands.output import Status
from mangrove.commands.remote_paths import normalize

ROWS_PER_PAGE = 100
SCOPES = {"all": 0, "folders": 1, "files": 2}


def create_share(context: Context) -> int:
    """Create a share link and print its address."""
    options = context.options
    password = read_secret("Password of the link") if options.password else ""
    row = context.client.share_create(
        files=[normalize(path) for path in options.paths], expires=options.expires, pwd=password,
        max_accessed=options.max_visits, mode=options.mode, remark=options.remark,
    )  # fmt: skip
    address = f"{context.client.address}/@s/{row['id']}"
    context.output.print_result(address, **row, address=address)
    return Status.DONE


def list_shares(context: Context) -> int:
    """Print the share links of the caller; an administrator has those of all users."""
    rows = context.client.share_list(page=1, per_page=0)["content"]
    context.output.print_rows(rows, ("id", "creator", "files", "mode", "expires", "accessed", "disabled"))
    return Status.DONE


def delete_shares(context: Context) -> int:
    """Delete share links."""
    for share in context.options.ids:
        context.client.share_delete(id=share)
    context.output.print_result("deleted", deleted=context.options.ids)
    return Status.DONE


def search(context: Context) -> int:
    """Search names, and print at most a number of paths."""
    options, page = context.options, 0
    rows: list[dict[str, Any]] = []
    while len(rows) < options.max:
        page += 1
        answer = context.client.fs_search(
            parent=normalize(options.folder), keywords=options.keywords, scope=SCOPES[options.type], page=page,
            per_page=ROWS_PER_PAGE,
        )  # fmt: skip
        content = answer["content"] or []
        rows += ({**row, "path": posixpath.join(row["parent"], row["name"])} for row in content)
        if len(content) < ROWS_PER_PAGE:
            break
    context.output.print_rows(rows[: options.max], ("path", "size", "modified"))
    return Status.DONE
