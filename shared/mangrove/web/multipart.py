"""Uploads in chunks: their bodies, headers and answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Field

from mangrove.core.http import parse_integer
from mangrove.core.problems import BadRequest
from mangrove.drivers.base import SignedRequest, Upload
from mangrove.tasks.upload.multipart import MAX_CHUNKS, NewUpload, UploadProgress
from mangrove.tasks.upload.sessions import SessionState
from mangrove.web.fields import CreatedTask, Path, Text
from mangrove.web.framework import Body, Depends, Model, Request
from mangrove.web.incoming import IncomingUpload, parse_size, require_path

MAX_SIGNED_CHUNKS_PER_REQUEST = 100
MAX_ID_LENGTH = 100


class DirectReq(Body):
    path: Path = Field("", description="The folder that receives the file, percent-encoded.")
    file_name: Text = Field("", description="Name of the file.")
    file_size: int = Field(0, ge=0, le=2**53, description="Size of the file in bytes.")
    password: Text = Field("", description="The folder's password, if a rule sets one.")
    tool: Text = Field("", description="Accepted and ignored: `HttpDirect` is the only tool.")


class DirectInfo(Model):
    upload_url: str = Field(description="Address that accepts the bytes.")
    chunk_size: int = Field(description="Always 0: the file is sent in one piece.")
    method: str = Field(description="Method of the request.")
    headers: dict[str, str] = Field(description="Headers of the request. They are signed, and so is its length.")


class MultipartReq(Body):
    upload_id: Text = Field("", description="Id of the upload session.")


class WantedChunk(BaseModel):
    index: int = Field(ge=0, lt=MAX_CHUNKS, description="Number of the chunk, from 0.")
    crc32: str = Field(max_length=20, description="CRC-32 of its bytes, highest byte first, in Base64.")


class SignReq(MultipartReq):
    chunks: list[WantedChunk] = Field(max_length=MAX_SIGNED_CHUNKS_PER_REQUEST, description="The chunks to send.")


class SignedChunk(Model):
    index: int = Field(description="Number of the chunk, from 0.")
    url: str = Field(description="Address that accepts its bytes.")
    method: str = Field(description="Method of the request.")
    headers: dict[str, str] = Field(description="Headers of the request. They are signed, and so is its length.")
    expires_in: int = Field(description="Seconds within which the request must begin.")


class SignedChunks(Model):
    chunks: list[SignedChunk] = Field(description="The requests, in the order of the chunks in the body.")


class UploadSnapshot(Model):
    upload_id: str = Field(description="Id of the upload session.")
    state: str = Field(description="`receiving`, `completed`, `failed_permanent` or `aborted`.")
    attempt: int = Field(description="Always 1.")
    path: str = Field(description="Path of the file in the whole tree.")
    size: int = Field(description="Size of the file in bytes.")
    chunk_size: int = Field(description="Bytes of every chunk but the last.")
    total_chunks: int = Field(description="Number of chunks.")
    received: list[list[int]] | None = Field(description="First and last number of each run of received chunks.")
    received_bytes: int = Field(description="Received bytes.")
    frontier: int = Field(description="Number of the first missing chunk.")
    storage_progress: int = Field(description="Percent of the file that is stored at its path.")
    direct: bool = Field(description="True if chunks may go to the storage itself, to addresses of `multipart/sign`.")
    receipt: dict[str, str | int] | None = Field(
        None, description="Name, size, SHA-256 and time, of a completed upload through a share link; absent for others."
    )
    error: str = Field("", description="Reason of the failure; absent if there is none.")
    resumed: bool = Field(False, description="In the answer of `init`: true if the session existed before.")
    task: CreatedTask | None = Field(None, description="In the answer of `complete`: the task that stores the file.")


class IncomingInit(IncomingUpload):
    """The headers of a new session: those of an upload, and the size of a chunk."""

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        if self.file_size is None:
            raise BadRequest("multipart upload requires a valid X-File-Size header")
        if not self.file_size:
            raise BadRequest("multipart upload requires a positive X-File-Size; upload empty files via /fs/put")
        text = request.headers.get("x-chunk-size", "")
        attributes = [request.headers.get("last-modified", ""), *(f"{kind} {sum}" for kind, sum in self.hashes.items())]
        self.new = NewUpload(
            Upload(self.file_size, self.modified, self.mime),
            self.overwrite,
            self.hashes,
            "\n".join(attributes).strip(),
            parse_size(text, "X-Chunk-Size") or None,
        )


class IncomingChunk:
    """The headers of a chunk."""

    def __init__(self, request: Request) -> None:
        self.upload_id = request.headers.get("x-upload-id", "")[:MAX_ID_LENGTH]
        index = parse_integer(request.headers.get("x-chunk-index", ""))
        if index is None:
            raise BadRequest("X-Chunk-Index is not a number")
        self.index = index
        self.crc32 = request.headers.get("x-chunk-crc32", "")[:MAX_ID_LENGTH]
        self.request = request


async def _parse_init(request: Request) -> IncomingInit:
    incoming = IncomingInit(request)
    require_path(request)
    return incoming


async def _parse_chunk(request: Request) -> IncomingChunk:
    return IncomingChunk(request)


async def _find_id(request: Request) -> str:
    return request.headers.get("x-upload-id", "")[:MAX_ID_LENGTH]


Init = Annotated[IncomingInit, Depends(_parse_init)]
Chunk = Annotated[IncomingChunk, Depends(_parse_chunk)]
UploadId = Annotated[str, Depends(_find_id)]


def format_progress(progress: UploadProgress) -> dict[str, Any]:
    """Return the state of a session, as an `UploadSnapshot`."""
    session = progress.session
    facts, count = session.facts, session.chunk_count
    numbers = list(range(1, count + 1)) if session.is_completed else [part.number for part in progress.parts]
    runs = _group(numbers)
    state = SessionState.RECEIVING if session.state.is_open else session.state
    snapshot = {
        "upload_id": session.id,
        "state": str(state),
        "attempt": 1,
        "path": facts.path,
        "size": facts.size,
        "chunk_size": session.chunk_size,
        "total_chunks": count,
        "received": runs or None,
        "received_bytes": sum(map(session.get_size_of, numbers)),
        "frontier": runs[0][1] + 1 if runs and runs[0][0] == 0 else 0,
        "storage_progress": 100 if session.is_completed and not facts.stage else 0,
        "direct": progress.is_direct,
    }
    return snapshot | ({"error": facts.error} if facts.error else {})


def _group(numbers: Sequence[int]) -> list[list[int]]:
    """Return the runs of chunks without a gap, counted from 0, for part numbers from 1 in ascending order."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 2:
            runs[-1][1] = number - 1
        else:
            runs.append([number - 1, number - 1])
    return runs


def format_direct(request: SignedRequest) -> dict[str, Any]:
    """Return the request that stores a whole file, as a `DirectInfo`."""
    return {
        "upload_url": request.url,
        "chunk_size": 0,
        "method": request.method,
        "headers": dict(request.headers),
    }


def format_signed(chunks: Sequence[WantedChunk], signed: Sequence[SignedRequest]) -> dict[str, Any]:
    """Return the requests that store chunks, as `SignedChunks`."""
    return {
        "chunks": [
            {
                "index": chunk.index,
                "url": request.url,
                "method": request.method,
                "headers": dict(request.headers),
                "expires_in": request.lifetime,
            }
            for chunk, request in zip(chunks, signed, strict=True)
        ]
    }
