"""Several small files in one request: a manifest in JSON, then the bytes of the files in its order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field, ValidationError

from mangrove.configuration import mask_private
from mangrove.core.http import guess_mime
from mangrove.core.limits import MIN_CHUNK_BYTES, limits
from mangrove.core.problems import BadRequest, Problem, TooLarge
from mangrove.drivers.base import Upload
from mangrove.identity.rights import Caller
from mangrove.tasks.upload.multipart import name_sender
from mangrove.tree import access
from mangrove.tree.operations import small_uploads
from mangrove.tree.operations.small_uploads import SmallUpload
from mangrove.web.fields import Password, Path, Text
from mangrove.web.flavours import ApiFlavour, format_message
from mangrove.web.framework import Body, Model, Request
from mangrove.web.incoming import MAX_MILLISECONDS, parse_size, read_body

MAX_FILES_PER_BATCH, MAX_BATCH_BYTES = 100, 4 << 20  # bytes with the manifest


class BatchFile(Body):
    path: Path
    size: int = Field(ge=0, le=MAX_BATCH_BYTES, description="Size in bytes.")
    modified: int = Field(ge=0, le=MAX_MILLISECONDS, description="Milliseconds since 1970.")
    type: Text = Field("", description="MIME type.")
    sha256: str = Field("", pattern="^([0-9A-Fa-f]{64})?$", description="A file with another SHA-256 is refused.")


class Manifest(Body):
    files: list[BatchFile] = Field(max_length=MAX_FILES_PER_BATCH, description="In the order of their bytes.")
    password: Password = ""
    overwrite: bool = Field(True, description="`false` refuses to replace existing files.")


class BatchOutcome(Model):
    code: int = Field(description="200, or the code of the failure.")
    message: str = Field(description="`success`, or the reason of the failure.")
    problem: str = Field(description="Class of the failure; empty for a success.")


class BatchAnswer(Model):
    files: list[BatchOutcome] = Field(description="The outcome of each file, in the order of the manifest.")


async def store_batch(who: Caller, request: Request) -> list[dict[str, Any]]:
    """Store each file of a body as `put` does, and return their outcomes.

    Raise BadRequest if the manifest does not fit the body, TooMany while too many bytes are in memory.
    """
    async with limits().chunk_bytes.hold(name_sender(who), MIN_CHUNK_BYTES):
        manifest, contents = await _read(request)
        problems: list[Problem | None] = [None] * len(contents)
        files: dict[int, SmallUpload] = {}
        for index, (file, content) in enumerate(zip(manifest.files, contents, strict=True)):
            try:
                files[index] = await _open(who, manifest, file, content)
            except Problem as problem:
                problems[index] = problem
        stored = await small_uploads.write([*files.values()], overwrite=manifest.overwrite)
        for index, outcome in zip(files, stored, strict=True):
            problems[index] = outcome
        return [_format_outcome(problem) for problem in problems]


async def _read(request: Request) -> tuple[Manifest, list[bytes]]:
    """Return the manifest of a body and the content of its files."""
    length = parse_size(request.headers.get("x-manifest-size", ""), "X-Manifest-Size")
    if length is None:
        raise BadRequest("X-Manifest-Size is required")
    body = bytearray()
    async for chunk in read_body(request):
        body += chunk
        if len(body) > MAX_BATCH_BYTES:
            raise TooLarge(f"a batch may have at most {MAX_BATCH_BYTES} bytes")
    try:
        manifest = Manifest.model_validate_json(bytes(body[:length]))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise BadRequest(f"the manifest is not valid: {place}: {first['msg']}") from None
    if length + sum(file.size for file in manifest.files) != len(body):
        raise BadRequest("the body does not have the sizes of the manifest")
    return manifest, _split(bytes(body), length, manifest.files)


def _split(body: bytes, start: int, files: Sequence[BatchFile]) -> list[bytes]:
    contents = []
    for file in files:
        contents.append(body[start : start + file.size])
        start += file.size
    return contents


async def _open(who: Caller, manifest: Manifest, file: BatchFile, content: bytes) -> SmallUpload:
    target = await access.at(who, file.path, manifest.password)
    upload = Upload(file.size, file.modified / 1000, file.type or guess_mime(file.path))
    return SmallUpload(target, content, upload, {"sha256": file.sha256} if file.sha256 else {})


def _format_outcome(problem: Problem | None) -> dict[str, Any]:
    if problem is None:
        return {"code": 200, "message": "success", "problem": ""}
    message = mask_private(format_message(problem, ApiFlavour.NATIVE))
    return {"code": problem.code, "message": message, "problem": problem.word}
