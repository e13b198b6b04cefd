"""Files: browse, make, rename, move, copy, remove."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

import orjson
from starlette.responses import Response

from mangrove.core.problems import AccessDenied, NotSupported
from mangrove.identity.rights import Caller, Right
from mangrove.records.tasks.model import Task
from mangrove.tasks import submit
from mangrove.tree import access
from mangrove.tree.listing import browse
from mangrove.tree.operations import archives, changes
from mangrove.tree.operations.plans import OnConflict, TransferRequest
from mangrove.web import dialects
from mangrove.web import fs_models as models
from mangrove.web.api import Api, make_lambda_handler
from mangrove.web.dialects import Dialect
from mangrove.web.envelope import Reply, ok, stream
from mangrove.web.framework import Query
from mangrove.web.gates import (
    Admin,
    ArchiveReader,
    Copier,
    Downloader,
    Mover,
    Reader,
    Remover,
    Renamer,
    Unpacker,
    Writer,
    name_caller,
)
from mangrove.web.parameters import BaseUrl, ClientAddress, RequestDialect

api = Api("files")


def _build_slice(body: models.ListReq | models.ArchiveListReq) -> browse.Slice:
    return browse.Slice(body.page, body.per_page, body.order_by, body.order_direction)


@api.post("/api/fs/list", data_model=models.Listing)
async def list_(who: Reader, body: models.ListReq, base_url: BaseUrl) -> Response:
    """A page of a folder."""
    folder = await access.at(who, body.path, body.password)
    return stream(await browse.list_folder(folder, _build_slice(body), body.refresh, base_url))


@api.get("/api/fs/list", data_model=models.Listing)
async def list_by_query(who: Reader, query: Annotated[models.ListQuery, Query()], base_url: BaseUrl) -> Response:
    """A page of a folder."""
    return await list_(who, query.to_body(), base_url)


@api.post("/api/fs/get", data_model=models.SingleObject)
async def get(who: Reader, body: models.GetReq, base_url: BaseUrl) -> Response:
    """One file or folder, with the link to its bytes."""
    return stream(await browse.get_object(await access.at(who, body.path, body.password), base_url))


@api.get("/api/fs/get", data_model=models.SingleObject)
async def get_by_query(who: Reader, query: Annotated[models.GetQuery, Query()], base_url: BaseUrl) -> Response:
    """One file or folder, with the link to its bytes."""
    return await get(who, query.to_body(), base_url)


@api.post("/api/fs/dirs", data_model=list[models.FolderName])
async def dirs(who: Reader, body: models.DirsReq) -> Response:
    """The folders in a folder."""
    if body.force_root and not who.is_admin:
        raise AccessDenied("Permission denied")
    folder = await access.at(who, body.path, body.password, confined=not body.force_root)
    return stream(await browse.list_subfolders(folder))


@api.get("/api/fs/dirs", data_model=list[models.FolderName])
async def dirs_by_query(who: Reader, query: Annotated[models.DirsQuery, Query()]) -> Response:
    """The folders in a folder."""
    return await dirs(who, query.to_body())


@api.post("/api/fs/other")
async def other(who: Reader, body: models.OtherReq) -> Reply:
    """Ask something of the driver that only it knows; no driver of this version knows anything."""
    await (await access.at(who, body.path, body.password)).require_read().locate("")
    raise NotSupported


@api.post("/api/fs/link", data_model=models.DirectLink)
async def link(who: Admin, body: models.LinkReq, base_url: BaseUrl) -> Reply:
    """Where the storage itself hands out a file."""
    found = await browse.get_link(await access.at(who, body.path, confined=False), base_url)
    lifetime = None if found.lifetime is None else int(found.lifetime * 1e9)
    data: dict[str, Any] = {"url": found.url, "header": dict(found.headers) or None, "Expiration": lifetime}
    return ok(data | {"concurrency": 0, "part_size": 0, "content_length": 0})


@api.post("/api/fs/mkdir")
async def mkdir(who: Writer, body: models.MkdirReq) -> Reply:
    """Make a folder, and those above it that are missing."""
    await changes.mkdir(await access.at(who, body.path))
    return ok()


@api.post("/api/fs/rename", data_model=models.Done | None)
async def rename(who: Renamer, body: models.RenameReq, dialect: RequestDialect) -> Reply:
    """Give a file or folder another name, now or as a task."""
    tasks = await submit.rename(await access.at(who, body.path, body.password), body.name, body.overwrite)
    return ok(dialects.format_left(tasks, dialect))


@api.post("/api/fs/batch_rename", data_model=models.Done | None)
async def batch_rename(who: Renamer, body: models.BatchRenameReq, dialect: RequestDialect) -> Reply:
    """Give entries of a folder other names, each its own, now or as a task."""
    wanted = {one.src_name: one.new_name for one in body.rename_objects if one.src_name and one.new_name}
    tasks = await submit.rename_all(await access.at(who, body.src_dir, body.password), wanted)
    return ok(dialects.format_left(tasks, dialect))


@api.post("/api/fs/regex_rename", data_model=models.Done | None)
async def regex_rename(who: Renamer, body: models.RegexRenameReq, dialect: RequestDialect) -> Reply:
    """Give entries of a folder other names by a pattern, now or as a task."""
    folder = await access.at(who, body.src_dir, body.password)
    tasks = await submit.rename_by_pattern(folder, body.src_name_regex, body.new_name_regex)
    return ok(dialects.format_left(tasks, dialect))


async def _find_ends(
    who: Caller, body: models.MoveCopyReq | models.RecursiveMoveReq | models.DecompressReq
) -> tuple[access.PathAccess, access.PathAccess]:
    """The folders that things go from and to."""
    return await access.at(who, body.src_dir, body.password), await access.at(who, body.dst_dir, body.password)


async def _make_request(who: Caller, body: models.MoveCopyReq, right: Right) -> TransferRequest:
    conflict = OnConflict(body.overwrite, body.skip_existing, body.merge)
    return TransferRequest(right, *await _find_ends(who, body), body.names, conflict)


@api.post("/api/fs/move", data_model=models.Done | None)
async def move(who: Mover, body: models.MoveCopyReq, dialect: RequestDialect) -> Reply:
    """Move entries into another folder, now or as tasks."""
    request = await _make_request(who, body, Right.MOVE)
    return ok(await _encode_transfer("Move", await submit.transfer(request), dialect))


@api.post("/api/fs/copy", data_model=models.Done | None)
async def copy(who: Copier, body: models.MoveCopyReq, dialect: RequestDialect) -> Reply:
    """Copy entries into another folder, now or as tasks."""
    request = await _make_request(who, body, Right.COPY)
    return ok(await _encode_transfer("Copy", await submit.transfer(request), dialect))


async def _encode_transfer(verb: Literal["Move", "Copy"], tasks: list[Task], dialect: Dialect) -> orjson.Fragment:
    """What a move or copy answers. `tasks` is emptied: thousands of them are let go of in the thread, too."""

    def encode() -> orjson.Fragment:
        answer = orjson.dumps(dialects.format_transfer(verb, tasks, dialect))
        tasks.clear()
        return orjson.Fragment(answer)

    return await asyncio.to_thread(encode)


@api.post("/api/fs/recursive_move", data_model=models.Done | None)
async def recursive_move(who: Mover, body: models.RecursiveMoveReq, dialect: RequestDialect) -> Reply:
    """Move all files below a folder into another one, without their folders, now or as a task."""
    ends = await _find_ends(who, body)
    count, tasks = await submit.move_files(*ends, body.conflict_policy or "cancel")
    message = dialects.format_recursive_move(count, tasks, dialect)
    return ok(dialects.format_left(tasks, dialect), message=message)


@api.post("/api/fs/add_offline_download", data_model=models.Opened)
async def add_offline_download(who: Downloader, body: models.OfflineDownloadReq, dialect: RequestDialect) -> Reply:
    """Have addresses downloaded into a folder."""
    folder = await access.at(who, body.path)
    tasks = await submit.download(folder, body.urls, body.tool, body.delete_policy)
    return ok({"tasks": [dialects.format_created_task(task, dialect) for task in tasks]})


@api.post("/api/fs/archive/meta", data_model=models.ArchiveMeta)
async def archive_meta(
    who: ArchiveReader, body: models.ArchiveReq, base_url: BaseUrl, client_address: ClientAddress
) -> Reply:
    """What an archive is, and all that is in it."""
    archive = await access.at(who, body.path, body.password)
    return ok(await archives.get_meta(archive, body.archive_pass, base_url, name_caller(who, client_address)))


@api.get("/api/fs/archive/meta", data_model=models.ArchiveMeta)
async def archive_meta_by_query(
    who: ArchiveReader,
    query: Annotated[models.ArchiveQuery, Query()],
    base_url: BaseUrl,
    client_address: ClientAddress,
) -> Reply:
    """What an archive is, and all that is in it."""
    return await archive_meta(who, query.to_body(), base_url, client_address)


@api.post("/api/fs/archive/list", data_model=models.ArchiveListing)
async def archive_list(who: ArchiveReader, body: models.ArchiveListReq, client_address: ClientAddress) -> Response:
    """A page of a folder inside an archive."""
    archive = await access.at(who, body.path, body.password)
    part, caller = _build_slice(body), name_caller(who, client_address)
    return stream(await archives.list_folder(archive, body.archive_pass, body.inner_path, part, caller))


@api.get("/api/fs/archive/list", data_model=models.ArchiveListing)
async def archive_list_by_query(
    who: ArchiveReader, query: Annotated[models.ArchiveListQuery, Query()], client_address: ClientAddress
) -> Response:
    """A page of a folder inside an archive."""
    return await archive_list(who, query.to_body(), client_address)


@api.post("/api/fs/archive/decompress", data_model=models.Unpacking)
async def decompress(who: Unpacker, body: models.DecompressReq, dialect: RequestDialect) -> Reply:
    """Unpack archives into a folder, as tasks."""
    ends = await _find_ends(who, body)
    options = submit.DecompressOptions(
        body.archive_pass, body.inner_path, body.cache_full, body.put_into_new_dir, body.overwrite
    )
    tasks = await submit.decompress(*ends, body.name, options)
    return ok({"task": [dialects.format_created_task(task, dialect) for task in tasks]})


@api.post("/api/fs/remove", data_model=models.Done | None)
async def remove(who: Remover, body: models.RemoveReq, dialect: RequestDialect) -> Reply:
    """Remove entries of a folder, with all that is in them, now or as a task."""
    tasks = await submit.remove(await access.at(who, body.dir, body.password), body.names)
    return ok(dialects.format_left(tasks, dialect))


@api.post("/api/fs/remove_empty_directory", data_model=models.Done | None)
async def remove_empty_directory(who: Remover, body: models.RemoveEmptyReq, dialect: RequestDialect) -> Reply:
    """Remove the empty folders below a folder, now or as a task."""
    tasks = await submit.remove_empty(await access.at(who, body.src_dir, body.password))
    return ok(dialects.format_left(tasks, dialect))


app = api.app
handler = make_lambda_handler(app)
