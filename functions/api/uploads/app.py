"""Uploads: a raw body or a form, streamed into the storage; files in chunks; uploads directly to a storage."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from typing import Annotated, Any
from urllib.parse import unquote

from starlette.responses import PlainTextResponse

from mangrove.core.http import guess_mime
from mangrove.core.paths import TreePath, check_name
from mangrove.core.problems import BadRequest, ResourceNotFound
from mangrove.drivers.base import Upload
from mangrove.identity.rights import Caller
from mangrove.records.share_uploads import UploadReceipt
from mangrove.tasks import submit
from mangrove.tasks.upload import completion, multipart
from mangrove.tasks.upload import sessions as upload_sessions
from mangrove.tasks.upload.sessions import BEING_COMPLETED, Session, SessionState
from mangrove.tree import access
from mangrove.tree.access import PathAccess
from mangrove.tree.operations import uploads
from mangrove.tree.sharing import uploads as shared_uploads
from mangrove.tree.sharing.shared_path import is_shared
from mangrove.tree.sharing.visits import hide_paths
from mangrove.web import flavours
from mangrove.web import multipart as wire
from mangrove.web.address import find_client_address
from mangrove.web.api import Api, make_lambda_handler
from mangrove.web.envelope import Reply, ok
from mangrove.web.fields import Stored
from mangrove.web.flavours import ApiFlavour
from mangrove.web.framework import Path, Query, Request
from mangrove.web.gates import Anyone, RequestFlavour, ShareSession, ShareWriter, Writer
from mangrove.web.incoming import Incoming, IncomingUpload, parse_size, read_body
from mangrove.web.multipart import Chunk, Init, UploadId
from mangrove.web.upload_batch import BatchAnswer, store_batch

api = Api("uploads")
HEADERS = [
    ("File-Path", "string", "Path of the file below the caller's base path, percent-encoded."),
    ("Content-Length", "integer", "Size of the body in bytes."),
    ("Password", "string", "The folder's password, if a rule sets one: replacing a file needs it."),
    ("Overwrite", "boolean", "`false` refuses to replace an existing file."),
    ("As-Task", "boolean", "`true` stores the file in the background."),
    ("Last-Modified", "integer", "Milliseconds since 1970."),
    ("X-File-Size", "integer", "Size in bytes, if Content-Length is absent."),
    ("X-File-Md5", "string", "MD5 of the file, hexadecimal; a body with another MD5 is refused."),
    ("X-File-Sha1", "string", "The same for SHA-1."),
    ("X-File-Sha256", "string", "The same for SHA-256."),
]
FILE = {"type": "string", "format": "binary", "description": "The bytes"}


def _describe_headers(*headers: tuple[str, str, str], required: Set[str]) -> dict[str, Any]:
    """Describe headers that are not in a signature, for the OpenAPI document."""
    return {
        "parameters": [
            {"name": name, "in": "header", "required": name in required, "description": text, "schema": {"type": kind}}
            for name, kind, text in headers
        ]
    }


def _describe_body(content_type: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {content_type: {"schema": schema}}}}


SharedTarget = Annotated[str, Path(description="Id of a share link, and the name of the file.")]
SENT: dict[int | str, dict[str, Any]] = {
    201: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Name, size, SHA-256 and time"},
    403: {"description": "The password is wrong, or the share link takes no uploads"},
    413: {"description": "The file is over a limit of the share link"},
    500: {"description": "There is no such share link, or it has ended"},
}
PUT = _describe_headers(*HEADERS, required={"File-Path"})
RAW = PUT | _describe_body("application/octet-stream", FILE)
FORM = PUT | _describe_body(
    "multipart/form-data", {"type": "object", "properties": {"file": FILE}, "required": ["file"]}
)


async def _store(
    target: PathAccess, incoming: IncomingUpload, body: AsyncIterator[bytes], upload: Upload, flavour: ApiFlavour
) -> Reply:
    if incoming.as_task:
        task = await submit.upload(target, body, upload, incoming.overwrite, incoming.hashes)
        return ok({"task": flavours.format_created_task(task, flavour)})
    await uploads.write(target, body, upload, overwrite=incoming.overwrite, hashes=incoming.hashes)
    return ok()


@api.put("/api/fs/put", data_model=Stored | None, openapi_extra=RAW, creates_tasks=True)
async def put(who: Writer, incoming: Incoming, flavour: RequestFlavour) -> Reply:
    """Store the body as a file."""
    target = await access.at(who, incoming.path, incoming.password)
    return await _store(target, incoming, *incoming.open_raw(), flavour)


@api.put("/api/fs/form", data_model=Stored | None, openapi_extra=FORM, creates_tasks=True)
async def form(who: Writer, incoming: Incoming, flavour: RequestFlavour) -> Reply:
    """Store the part `file` of a form as a file."""
    target = await access.at(who, incoming.path, incoming.password)
    await uploads.refuse_form(target)
    target, _ = await uploads.prepare(target, incoming.overwrite)
    return await _store(target, incoming, *await incoming.open_form(), flavour)


BATCH = _describe_headers(
    ("X-Manifest-Size", "integer", "Bytes of the manifest at the beginning of the body."), required={"X-Manifest-Size"}
) | _describe_body("application/octet-stream", FILE)


@api.put("/api/fs/put_batch", data_model=BatchAnswer, openapi_extra=BATCH)
async def put_batch(who: Writer, request: Request) -> Reply:
    """Store several small files. The body is a manifest in JSON, then the bytes of the files.

    The manifest has `password` and `overwrite`, as for `put`, and `files`: at most 100 objects with `path`, `size`,
    `modified` in milliseconds since 1970, `type` and `sha256`. A file that is refused does not affect the others.
    """
    return ok({"files": await store_batch(who, request)})


PasswordText = Annotated[str, Query(max_length=255, description="Password of the share link, if it has one.")]


@api.put(
    "/sd/{path:path}",
    response_class=PlainTextResponse,
    responses=SENT,
    openapi_extra=_describe_headers(*HEADERS[1:2], *HEADERS[5:], required=set())
    | _describe_body("application/octet-stream", FILE),
)
async def put_shared(
    who: Anyone, path: SharedTarget, request: Request, pwd: PasswordText = "", share_session: ShareSession = ""
) -> PlainTextResponse:
    """Store the body as a file in the folder of a share link that takes uploads, and answer with a line of text.

    A file whose name is taken gets another name.
    """
    incoming = IncomingUpload(request)
    with hide_paths("upload to"):
        target = await shared_uploads.find_target(path, pwd, await find_client_address(request))
        body, upload = incoming.open_raw()
        upload = replace(upload, mime=guess_mime(target.path.name))
        receipt = await shared_uploads.store(target, body, upload, incoming.hashes, share_session)
    return PlainTextResponse(shared_uploads.format_line(receipt), 201)


INIT = _describe_headers(
    *(header for header in HEADERS if header[0] not in ("Content-Length", "As-Task")),
    ("X-Chunk-Size", "integer", "Preferred size of a chunk in bytes; the answer has the actual size."),
    required={"File-Path", "X-File-Size"},
)
ID = ("X-Upload-Id", "string", "Id of the upload session.")
CHUNK = _describe_headers(
    ID,
    ("X-Chunk-Index", "integer", "Number of the chunk, from 0."),
    (
        "X-Chunk-Crc32",
        "string",
        "CRC-32 of its bytes, highest byte first, in Base64. A chunk with another one is refused.",
    ),
    required={"X-Upload-Id", "X-Chunk-Index"},
) | _describe_body("application/octet-stream", FILE)
COMPLETE = _describe_headers(ID, ("Password", "string", "As for `put`."), required={"X-Upload-Id"})
ABORT = _describe_headers(ID, required={"X-Upload-Id"})
DIRECT = _describe_headers(*(header for header in HEADERS if header[0] == "Overwrite"), required=set())


@api.post("/api/fs/get_direct_upload_info", data_model=wire.DirectInfo, openapi_extra=DIRECT)
async def get_direct_upload_info(who: Writer, body: wire.DirectReq, request: Request) -> Reply:
    """Return the address at the storage to which the client sends a whole file. Other storages refuse it."""
    try:
        path = unquote(body.path, errors="strict")
    except UnicodeDecodeError:
        raise BadRequest("path is not valid Unicode") from None
    folder = await access.at(who, path, body.password)
    upload = Upload(body.file_size, time.time(), guess_mime(body.file_name))
    overwrite = request.headers.get("overwrite", "") != "false"
    signed = await multipart.sign_upload(folder.child(check_name(body.file_name)), upload, overwrite)
    return ok(wire.format_direct(signed))


@api.post("/api/fs/multipart/init", data_model=wire.UploadSnapshot, openapi_extra=INIT)
async def init_multipart(who: ShareWriter, incoming: Init) -> Reply:
    """Begin an upload in chunks, or resume the upload of the same file."""
    with _hide_paths(is_shared(TreePath(incoming.path))):
        target = await shared_uploads.open_target(who, incoming.path, incoming.password)
        multipart.require_enabled(target.tree.settings)
        progress, is_resumed = await multipart.begin(target, incoming.new)
    return ok(wire.format_progress(progress) | {"resumed": is_resumed})


@api.put("/api/fs/multipart/chunk", data_model=wire.UploadSnapshot, openapi_extra=CHUNK)
async def put_chunk(who: ShareWriter, incoming: Chunk) -> Reply:
    """Store a chunk, in any order; a chunk that is sent again replaces the previous one."""
    session = await upload_sessions.load(who, incoming.upload_id)
    body = read_body(incoming.request)
    with _hide_paths(bool(session.facts.share)):
        progress = await multipart.write_chunk(who, session, incoming.index, body, incoming.crc32)
    is_receiving = session.state is SessionState.RECEIVING
    return ok(wire.format_progress(progress), "success" if is_receiving else BEING_COMPLETED)


@api.post("/api/fs/multipart/sign", data_model=wire.SignedChunks)
async def sign_chunks(who: ShareWriter, body: wire.SignReq) -> Reply:
    """Return addresses at the storage for chunks; each accepts a chunk of the same size and CRC-32 only."""
    session = await upload_sessions.load(who, body.upload_id)
    chunks = [(chunk.index, chunk.crc32) for chunk in body.chunks]
    with _hide_paths(bool(session.facts.share)):
        return ok(wire.format_signed(body.chunks, await multipart.sign(who, session, chunks)))


@api.post("/api/fs/multipart/complete", data_model=wire.UploadSnapshot, openapi_extra=COMPLETE, creates_tasks=True)
async def complete_multipart(
    who: ShareWriter, upload_id: UploadId, request: Request, flavour: RequestFlavour, share_session: ShareSession = ""
) -> Reply:
    """Assemble the file from its chunks; missing chunks are named. The request may be repeated."""
    session = await upload_sessions.load(who, upload_id)
    if session.facts.share:
        return ok(await _complete_shared(who, session, share_session))
    task = await completion.complete(who, session, request.headers.get("password", ""))
    progress = wire.format_progress(await multipart.look(session))
    return ok(progress | ({"task": flavours.format_created_task(task, flavour)} if task else {}))


async def _complete_shared(who: Caller, session: Session, share_session: str) -> dict[str, Any]:
    """Complete the upload of a visitor, and return its state with the receipt."""
    is_new = not session.is_completed
    with _hide_paths(True):
        await completion.complete(who, session, "")
        facts = session.facts
        receipt = UploadReceipt(TreePath(facts.target).name, facts.size, facts.sha256, int(time.time()))
        if is_new:
            await shared_uploads.keep_receipt(facts.share, share_session, receipt)
        return wire.format_progress(await multipart.look(session)) | {"receipt": asdict(receipt)}


def _hide_paths(is_hidden: bool) -> AbstractContextManager[None]:
    """Return a context in which failures name no path of the tree, if a visitor of a share link is answered."""
    return hide_paths("upload to") if is_hidden else nullcontext()


SessionId = Annotated[str, Query(description="Id of the upload session.")]
FilePath = Annotated[str, Query(description="Path in the tree, below the caller's root.")]
FileSize = Annotated[str, Query(description="Size of the file in bytes.")]


@api.get("/api/fs/multipart/status", data_model=wire.UploadSnapshot)
async def get_multipart(who: ShareWriter, upload_id: SessionId = "", path: FilePath = "", size: FileSize = "") -> Reply:
    """Return the state of an upload in chunks, by its id or by path and size; the newest if there are several."""
    if upload_id:
        return ok(wire.format_progress(await multipart.look(await upload_sessions.load(who, upload_id))))
    file_size = parse_size(size, "size")
    if file_size is None:
        raise BadRequest("upload_id, or path and size, are required")
    progress = await multipart.find(await access.at(who, path), file_size)
    if progress is None:
        raise ResourceNotFound("multipart upload session not found")
    return ok(wire.format_progress(progress))


@api.post("/api/fs/multipart/abort", data_model=wire.UploadSnapshot, openapi_extra=ABORT)
async def abort_multipart(who: ShareWriter, upload_id: UploadId) -> Reply:
    """Abort an upload and delete its chunks."""
    session = await upload_sessions.load(who, upload_id)
    await completion.abort(who, session)
    return ok(wire.format_progress(await multipart.look(session)))


app = api.app
handler = make_lambda_handler(app)
