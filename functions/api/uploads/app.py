"""Uploads: a raw body or a form, streamed into the storage."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from mangrove.drivers.base import Upload
from mangrove.tasks import submit
from mangrove.tree import access, uploads
from mangrove.tree.access import PathAccess
from mangrove.web import dialects
from mangrove.web import fs_models as models
from mangrove.web.api import Api, lambda_handler
from mangrove.web.envelope import Reply, ok
from mangrove.web.gates import Dialect, Writer
from mangrove.web.incoming import Incoming, Sent

api = Api("uploads")
HEADERS = [
    ("File-Path", True, "Where the file goes, percent-encoded, below the caller's base path"),
    ("Content-Length", False, "Bytes of the body"),
    ("Overwrite", False, "`false` refuses a name that is taken"),
    ("As-Task", False, "`true` stores in the background"),
    ("Last-Modified", False, "Milliseconds since 1970"),
    ("X-File-Size", False, "Bytes, where Content-Length does not say it"),
    ("X-File-Md5", False, "Hexadecimal; a body that does not fit is refused"),
    ("X-File-Sha1", False, "The same"),
    ("X-File-Sha256", False, "The same"),
]
FILE = {"type": "string", "format": "binary"}


def _shown(kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    """What the OpenAPI document says of a request that no model binds."""
    parameters = [
        {"name": name, "in": "header", "required": required, "description": text, "schema": {"type": "string"}}
        for name, required, text in HEADERS
    ]
    return {"parameters": parameters, "requestBody": {"required": True, "content": {kind: {"schema": schema}}}}


RAW = _shown("application/octet-stream", FILE)
FORM = _shown("multipart/form-data", {"type": "object", "properties": {"file": FILE}, "required": ["file"]})


async def _stored(place: PathAccess, sent: Incoming, body: AsyncIterator[bytes], upload: Upload, dialect: str) -> Reply:
    if sent.as_task:
        task = await submit.upload(place, body, upload, sent.overwrite, sent.hashes)
        return ok({"task": dialects.created_task(task, dialect)})
    await uploads.write(place, body, upload, overwrite=sent.overwrite, hashes=sent.hashes)
    return ok()


@api.put("/api/fs/put", gives=models.Stored | None, openapi_extra=RAW)
async def put(who: Writer, sent: Sent, dialect: Dialect) -> Reply:
    place = await access.at(who, sent.path)
    return await _stored(place, sent, *sent.raw(), dialect)


@api.put("/api/fs/form", gives=models.Stored | None, openapi_extra=FORM)
async def form(who: Writer, sent: Sent, dialect: Dialect) -> Reply:
    place = await access.at(who, sent.path)
    await uploads.refuse_form(place)
    await uploads.admitted(place, sent.overwrite)
    return await _stored(place, sent, *await sent.form(), dialect)


app = api.app
handler = lambda_handler(app)
