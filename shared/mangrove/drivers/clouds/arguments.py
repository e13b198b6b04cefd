"""The options of a cloud storage as opendal takes them."""

from __future__ import annotations

from collections.abc import Sequence

from mangrove.core.paths import TreePath
from mangrove.core.problems import StorageProblem
from mangrove.drivers.options import Options

OURS = {"root_folder_path", "sign_url_expire"}  # options that are not opendal's


def build_arguments(
    options: Options, credentials: Sequence[Sequence[str]], settings: Sequence[tuple[str, str]]
) -> dict[str, str]:
    """What the operator is made of. `credentials`: sets of options of which the first complete one
    is used; `settings`: what
    every operator of the service gets. StorageProblem names what is missing."""
    items = options.list_form_items()
    values = {item.name: getattr(options, item.name) for item in items}
    given = {name: str(value).strip() for name, value in values.items() if value}
    for item in items:
        if item.required and item.name not in given and item.name != "root_folder_path":
            raise StorageProblem(f"{item.name} is required")
    chosen = next((names for names in credentials if all(name in given for name in names)), None)
    if credentials and chosen is None:
        raise StorageProblem(f"{', or '.join(' and '.join(names) for names in credentials)} is required")
    others = {name for names in credentials for name in names}.difference(chosen or ())
    arguments = {name: value for name, value in given.items() if name not in OURS | others}
    if "endpoint" in arguments:
        arguments["endpoint"] = complete_endpoint(arguments["endpoint"])
    return {**dict(settings), **arguments, "root": TreePath(given.get("root_folder_path", "/"))}


def complete_endpoint(text: str) -> str:
    """An endpoint with its scheme."""
    text = text.rstrip("/")
    return text if "://" in text else f"https://{text}"
