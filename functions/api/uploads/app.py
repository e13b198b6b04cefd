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
from mangrove.web.api import Api, make_lambda_handler
from mangrove.web.dialects import Dialect, RequestDialect
from mangrove.web.envelope import Reply, ok
from mangrove.web.gates import Writer
from mangrove.web.incoming import Incoming, IncomingUpload

api = Api("uploads")
HEADERS = [
    ("File-Path", "string", "Where the file goes, percent-encoded, below the caller's base path."),
    ("Content-Length", "integer", "Bytes of the body."),
    ("Password", "string", "Of the folder, where a rule has one: who may not read there does not replace."),
    ("Overwrite", "boolean", "`false` refuses a name that is taken."),
    ("As-Task", "boolean", "`true` stores in the background."),
    ("Last-Modified", "integer", "Milliseconds since 1970."),
    ("X-File-Size", "integer", "Bytes, where Content-Length does not say it."),
    ("X-File-Md5", "string", "Hexadecimal; a body that does not fit is refused."),
    ("X-File-Sha1", "string", "The same with SHA-1."),
    ("X-File-Sha256", "string", "The same with SHA-256."),
]
FILE = {"type": "string", "format": "binary", "description": "The bytes"}


def _describe_request(content_type: str, schema: dict[str, Any]) -> dict[str, Any]:
    """For the OpenAPI document: a request that no model binds."""
    parameters = [
        {"name": name, "in": "header", "required": name == "File-Path", "description": text, "schema": {"type": kind}}
        for name, kind, text in HEADERS
    ]
    return {"parameters": parameters, "requestBody": {"required": True, "content": {content_type: {"schema": schema}}}}


RAW = _describe_request("application/octet-stream", FILE)
FORM = _describe_request("multipart/form-data", {"type": "object", "properties": {"file": FILE}, "required": ["file"]})


async def _store(
    target: PathAccess, incoming: IncomingUpload, body: AsyncIterator[bytes], upload: Upload, dialect: Dialect
) -> Reply:
    if incoming.as_task:
        task = await submit.upload(target, body, upload, incoming.overwrite, incoming.hashes)
        return ok({"task": dialects.format_created_task(task, dialect)})
    await uploads.write(target, body, upload, overwrite=incoming.overwrite, hashes=incoming.hashes)
    return ok()


@api.put("/api/fs/put", data_model=models.Stored | None, openapi_extra=RAW)
async def put(who: Writer, incoming: Incoming, dialect: RequestDialect) -> Reply:
    """Store the body as a file."""
    target = await access.at(who, incoming.path, incoming.password)
    return await _store(target, incoming, *incoming.open_raw(), dialect)


@api.put("/api/fs/form", data_model=models.Stored | None, openapi_extra=FORM)
async def form(who: Writer, incoming: Incoming, dialect: RequestDialect) -> Reply:
    """Store the part `file` of a form as a file."""
    target = await access.at(who, incoming.path, incoming.password)
    await uploads.refuse_form(target)
    target, _ = await uploads.prepare(target, incoming.overwrite)
    return await _store(target, incoming, *await incoming.open_form(), dialect)


app = api.app
handler = make_lambda_handler(app)
