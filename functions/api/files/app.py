"""Files: browse, make, rename, move, copy, remove."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query

from mangrove.identity.rights import Caller
from mangrove.problems import Denied, NotSupported
from mangrove.tasks import submit
from mangrove.tree import access, archives, browse, changes, transfers
from mangrove.web import dialects
from mangrove.web import fs_models as models
from mangrove.web.address import Address
from mangrove.web.api import Api, lambda_handler
from mangrove.web.envelope import Reply, ok
from mangrove.web.gates import (
    Admin,
    ArchiveReader,
    Copier,
    Dialect,
    Downloader,
    Mover,
    Reader,
    Remover,
    Renamer,
    Unpacker,
    Writer,
)

api = Api("files")


async def _list(who: Caller, body: models.ListReq, address: str) -> Reply:
    place = await access.at(who, body.path, body.password)
    return ok(await browse.listing(place, browse.Slice(body.page, body.per_page), body.refresh, address))


async def _get(who: Caller, body: models.ListReq, address: str) -> Reply:
    return ok(await browse.one(await access.at(who, body.path, body.password), address))


async def _archive(who: Caller, body: models.ArchiveReq, address: str) -> Reply:
    return ok(await archives.meta(await access.at(who, body.path, body.password), body.archive_pass, address))


async def _archive_list(who: Caller, body: models.ArchiveListReq) -> Reply:
    part = browse.Slice(body.page, body.per_page)
    place = await access.at(who, body.path, body.password)
    return ok(await archives.listing(place, body.archive_pass, body.inner_path, part))


async def _dirs(who: Caller, body: models.DirsReq) -> Reply:
    if body.force_root and not who.is_admin:
        raise Denied("Permission denied")
    return ok(await browse.folders(await access.at(who, body.path, body.password, confined=not body.force_root)))


@api.post("/api/fs/list", gives=models.Listing)
async def list_(who: Reader, body: models.ListReq, address: Address) -> Reply:
    return await _list(who, body, address)


@api.get("/api/fs/list", gives=models.Listing)
async def list_by_query(who: Reader, query: Annotated[models.ListQuery, Query()], address: Address) -> Reply:
    return await _list(who, query.body(), address)


@api.post("/api/fs/get", gives=models.SingleObject)
async def get(who: Reader, body: models.ListReq, address: Address) -> Reply:
    return await _get(who, body, address)


@api.get("/api/fs/get", gives=models.SingleObject)
async def get_by_query(who: Reader, query: Annotated[models.ListQuery, Query()], address: Address) -> Reply:
    return await _get(who, query.body(), address)


@api.post("/api/fs/dirs", gives=list[models.FolderName])
async def dirs(who: Reader, body: models.DirsReq) -> Reply:
    return await _dirs(who, body)


@api.get("/api/fs/dirs", gives=list[models.FolderName])
async def dirs_by_query(who: Reader, query: Annotated[models.DirsQuery, Query()]) -> Reply:
    return await _dirs(who, query.body())


@api.post("/api/fs/other")
async def other(who: Reader, body: models.OtherReq) -> Reply:
    place = (await access.at(who, body.path, body.password)).require_read()
    await changes.running(place)
    raise NotSupported


@api.post("/api/fs/link", gives=models.DirectLink)
async def link(who: Admin, body: models.LinkReq, address: Address) -> Reply:
    found = await browse.direct(await access.at(who, body.path, confined=False), address)
    lifetime = None if found.lifetime is None else int(found.lifetime * 1e9)
    data: dict[str, Any] = {"url": found.url, "header": dict(found.headers) or None, "Expiration": lifetime}
    return ok(data | {"concurrency": 0, "part_size": 0, "content_length": 0})


@api.post("/api/fs/mkdir")
async def mkdir(who: Writer, body: models.MkdirReq) -> Reply:
    await changes.make(await access.at(who, body.path))
    return ok()


@api.post("/api/fs/rename")
async def rename(who: Renamer, body: models.RenameReq) -> Reply:
    await changes.rename(await access.at(who, body.path), body.name, body.overwrite)
    return ok()


@api.post("/api/fs/batch_rename")
async def batch_rename(who: Renamer, body: models.BatchRenameReq) -> Reply:
    wanted = {one.src_name: one.new_name for one in body.rename_objects if one.src_name and one.new_name}
    await changes.rename_all(await access.at(who, body.src_dir), wanted)
    return ok()


@api.post("/api/fs/regex_rename")
async def regex_rename(who: Renamer, body: models.RegexRenameReq) -> Reply:
    place = await access.at(who, body.src_dir)
    await changes.rename_by_pattern(place, body.src_name_regex, body.new_name_regex)
    return ok()


def _conflict(body: models.MoveCopyReq) -> transfers.OnConflict:
    return transfers.OnConflict(body.overwrite, body.skip_existing, body.merge)


@api.post("/api/fs/move", gives=models.Done | None)
async def move(who: Mover, body: models.MoveCopyReq, dialect: Dialect) -> Reply:
    places = await access.at(who, body.src_dir), await access.at(who, body.dst_dir)
    tasks = await submit.move(*places, body.names, _conflict(body))
    return ok(dialects.transferred("Move", tasks, dialect))


@api.post("/api/fs/copy", gives=models.Done | None)
async def copy(who: Copier, body: models.MoveCopyReq, dialect: Dialect) -> Reply:
    places = await access.at(who, body.src_dir), await access.at(who, body.dst_dir)
    tasks = await submit.copy(*places, body.names, _conflict(body))
    return ok(dialects.transferred("Copy", tasks, dialect))


@api.post("/api/fs/recursive_move")
async def recursive_move(who: Mover, body: models.RecursiveMoveReq, dialect: Dialect) -> Reply:
    places = await access.at(who, body.src_dir), await access.at(who, body.dst_dir)
    count = await transfers.flatten(*places, body.conflict_policy or "cancel")
    return ok(message=dialects.flattened(count, dialect))


@api.post("/api/fs/add_offline_download", gives=models.Opened)
async def add_offline_download(who: Downloader, body: models.OfflineDownloadReq, dialect: Dialect) -> Reply:
    place = await access.at(who, body.path)
    tasks = await submit.download(place, body.urls, body.tool, body.delete_policy)
    return ok({"tasks": [dialects.created_task(task, dialect) for task in tasks]})


@api.post("/api/fs/archive/meta", gives=models.ArchiveMeta)
async def archive_meta(who: ArchiveReader, body: models.ArchiveReq, address: Address) -> Reply:
    return await _archive(who, body, address)


@api.get("/api/fs/archive/meta", gives=models.ArchiveMeta)
async def archive_meta_by_query(
    who: ArchiveReader, query: Annotated[models.ArchiveQuery, Query()], address: Address
) -> Reply:
    return await _archive(who, query.body(), address)


@api.post("/api/fs/archive/list", gives=models.ArchiveListing)
async def archive_list(who: ArchiveReader, body: models.ArchiveListReq) -> Reply:
    return await _archive_list(who, body)


@api.get("/api/fs/archive/list", gives=models.ArchiveListing)
async def archive_list_by_query(who: ArchiveReader, query: Annotated[models.ArchiveListQuery, Query()]) -> Reply:
    return await _archive_list(who, query.body())


@api.post("/api/fs/archive/decompress", gives=models.Unpacking)
async def decompress(who: Unpacker, body: models.DecompressReq, dialect: Dialect) -> Reply:
    places = await access.at(who, body.src_dir), await access.at(who, body.dst_dir)
    wanted = submit.DecompressOptions(
        body.archive_pass, body.inner_path, body.cache_full, body.put_into_new_dir, body.overwrite
    )
    tasks = await submit.decompress(*places, body.name, wanted)
    return ok({"task": [dialects.created_task(task, dialect) for task in tasks]})


@api.post("/api/fs/remove")
async def remove(who: Remover, body: models.RemoveReq) -> Reply:
    await changes.remove(await access.at(who, body.dir), body.names)
    return ok()


@api.post("/api/fs/remove_empty_directory")
async def remove_empty_directory(who: Remover, body: models.RemoveEmptyReq) -> Reply:
    await changes.remove_empty(await access.at(who, body.src_dir))
    return ok()


app = api.app
handler = lambda_handler(app)
