"""How the entries of a folder are written for one caller: with signatures, and with the addresses of thumbnails."""

from __future__ import annotations

from typing import Any

from mangrove.drivers.base import Entry
from mangrove.tree.access import PathAccess
from mangrove.tree.listing.folder import Encode
from mangrove.tree.operations import links, objects
from mangrove.tree.operations.links import Signer
from mangrove.tree.operations.objects import encode_rows


def make_signer(access: PathAccess) -> Signer:
    """What signs links for this caller."""
    return links.make_signer(access.settings, access.caller.user.id)


def make_folder_signer(access: PathAccess) -> Signer | None:
    """What signs the links in this folder; None where they carry no signature."""
    return make_signer(access) if access.signs_folder() else None


def make_encoder(access: PathAccess, signer: Signer | None, base: str | None) -> Encode:
    """How rows of the folder are written: signed where there is a signer, with thumbnails where `base` is given."""
    codes = access.settings.type_codes
    prefix = "" if access.path == "/" else str(access.path)

    def make_row(entry: Entry) -> dict[str, Any]:
        path = f"{prefix}/{entry.name}"
        sign = signer.sign(path) if signer is not None and not entry.is_dir else ""
        return objects.make_row(codes, entry, sign, make_thumb_url(path, entry, sign, base))

    return lambda entries: encode_rows(map(make_row, entries))


def make_thumb_url(path: str, entry: Entry, sign: str, base: str | None) -> str:
    """Where the thumbnail of an entry is fetched; "" where it has none."""
    if base is None or not entry.thumb or entry.is_dir:
        return ""
    return links.make_file_url(base, "/d", path, f"type=thumb&sign={sign}")
