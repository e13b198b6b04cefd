"""Uploads in parts on the wire (behaviour 5.21, 5.22): their headers, and how a session is shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Field

from mangrove.core.http import parse_integer
from mangrove.core.problems import BadRequest
from mangrove.drivers.base import Upload
from mangrove.drivers.direct import SignedRequest
from mangrove.tasks.upload.multipart import MOST_CHUNKS, NewUpload, Progress
from mangrove.tasks.upload.sessions import SessionState
from mangrove.web.binding import Body, Model
from mangrove.web.framework import Depends, Request
from mangrove.web.fs_models import CreatedTask, PathText, Text
from mangrove.web.incoming import IncomingUpload, parse_size

MOST_SIGNED = 100  # chunks of one request
LONGEST_ID = 100  # characters


class DirectReq(Body):
    path: PathText = Field("", description="The folder that it goes to, percent-encoded.")
    file_name: Text = Field("", description="The file's name.")
    file_size: int = Field(0, ge=0, le=2**53, description="Bytes of the file.")
    password: Text = Field("", description="Of the folder, where a rule has one.")
    tool: Text = Field("", description="Taken and without effect: there is one way, `HttpDirect`.")


class DirectInfo(Model):
    upload_url: str = Field(description="The address that takes the bytes.")
    chunk_size: int = Field(description="0: the file goes there in one piece.")
    method: str = Field(description="The method of the request.")
    headers: dict[str, str] = Field(description="Headers of the request, which are signed, as is its length.")


class MultipartReq(Body):
    upload_id: Text = ""


class WantedChunk(BaseModel):
    index: int = Field(ge=0, lt=MOST_CHUNKS, description="The number of the chunk, from 0.")
    crc32: str = Field(max_length=20, description="The CRC-32 of its bytes, highest byte first, in Base64.")


class SignReq(MultipartReq):
    chunks: list[WantedChunk] = Field(max_length=MOST_SIGNED, description="The chunks that are to be sent.")


class SignedChunk(Model):
    index: int = Field(description="The number of the chunk, from 0.")
    url: str = Field(description="The address that takes its bytes.")
    method: str = Field(description="The method of the request.")
    headers: dict[str, str] = Field(description="Headers of the request, which are signed, as is its length.")
    expires_in: int = Field(description="Seconds in which the request has to begin.")


class SignedChunks(Model):
    chunks: list[SignedChunk] = Field(description="The requests, in the order in which they were asked for.")


class UploadSnapshot(Model):
    upload_id: str
    state: str = Field(description="`receiving`, `completed`, `failed_permanent` or `aborted`.")
    attempt: int = Field(description="Always 1: a session has no runs.")
    path: str = Field(description="Where the file goes, as a path of the whole tree.")
    size: int = Field(description="Bytes of the file.")
    chunk_size: int = Field(description="Bytes of every chunk but the last.")
    total_chunks: int = Field(description="How many chunks the file has.")
    received: list[list[int]] | None = Field(description="First and last of each row of chunks that are there.")
    received_bytes: int = Field(description="Bytes that are there.")
    frontier: int = Field(description="The first chunk that is missing.")
    storage_progress: int = Field(description="Percent of the file that are where it belongs.")
    direct: bool = Field(description="Whether chunks go to the storage itself, to addresses from `multipart/sign`.")
    error: str = Field("", description="Why it failed; absent where it did not.")
    resumed: bool = Field(False, description="Of `init`: whether the session was there before.")
    task: CreatedTask | None = Field(None, description="Of `complete`: the task that carries the file on.")


class IncomingInit(IncomingUpload):
    """The headers of a new session, those of an upload and two more."""

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        if self.file_size is None:
            raise BadRequest("multipart upload requires a valid X-File-Size header")
        if not self.file_size:
            raise BadRequest("multipart upload requires a positive X-File-Size; upload empty files via /fs/put")
        text = request.headers.get("x-chunk-size", "")
        told = [request.headers.get("last-modified", ""), *(f"{kind} {sum}" for kind, sum in self.hashes.items())]
        self.new = NewUpload(
            Upload(self.file_size, self.modified, self.mime),
            self.overwrite,
            self.hashes,
            "\n".join(told).strip(),
            parse_size(text, "X-Chunk-Size") or None,
        )


class IncomingChunk:
    """The headers of one chunk."""

    def __init__(self, request: Request) -> None:
        self.upload_id = request.headers.get("x-upload-id", "")[:LONGEST_ID]
        index = parse_integer(request.headers.get("x-chunk-index", ""))
        if index is None:
            raise BadRequest("X-Chunk-Index is not a number")
        self.index = index
        self.crc32 = request.headers.get("x-chunk-crc32", "")[:LONGEST_ID]
        self.request = request


async def _parse_init(request: Request) -> IncomingInit:
    return IncomingInit(request)


async def _parse_chunk(request: Request) -> IncomingChunk:
    return IncomingChunk(request)


async def _find_id(request: Request) -> str:
    return request.headers.get("x-upload-id", "")[:LONGEST_ID]


Init = Annotated[IncomingInit, Depends(_parse_init)]
Chunk = Annotated[IncomingChunk, Depends(_parse_chunk)]
UploadId = Annotated[str, Depends(_find_id)]


def format_progress(progress: Progress) -> dict[str, Any]:
    """The snapshot of a session."""
    session = progress.session
    facts, count = session.facts, session.chunk_count
    numbers = list(range(1, count + 1)) if session.is_completed else [part.number for part in progress.parts]
    rows = _group(numbers)
    shown = SessionState.RECEIVING if session.state.is_open else session.state
    found = {
        "upload_id": session.id,
        "state": str(shown),
        "attempt": 1,
        "path": facts.path,
        "size": facts.size,
        "chunk_size": session.chunk_size,
        "total_chunks": count,
        "received": rows or None,
        "received_bytes": sum(map(session.get_size_of, numbers)),
        "frontier": rows[0][1] + 1 if rows and rows[0][0] == 0 else 0,
        "storage_progress": 100 if session.is_completed and not facts.stage else 0,
        "direct": progress.is_direct,
    }
    return found | ({"error": facts.error} if facts.error else {})


def _group(numbers: Sequence[int]) -> list[list[int]]:
    """Rows of chunks without a gap, counted from 0, of part numbers in order."""
    rows: list[list[int]] = []
    for number in numbers:
        if rows and rows[-1][1] == number - 2:
            rows[-1][1] = number - 1
        else:
            rows.append([number - 1, number - 1])
    return rows


def format_direct(request: SignedRequest) -> dict[str, Any]:
    """The request that stores a whole file."""
    return {
        "upload_url": request.url,
        "chunk_size": 0,
        "method": request.method,
        "headers": dict(request.headers),
    }


def format_signed(wanted: Sequence[WantedChunk], signed: Sequence[SignedRequest]) -> dict[str, Any]:
    """The requests that store chunks."""
    return {
        "chunks": [
            {
                "index": chunk.index,
                "url": one.url,
                "method": one.method,
                "headers": dict(one.headers),
                "expires_in": one.lifetime,
            }
            for chunk, one in zip(wanted, signed, strict=True)
        ]
    }
