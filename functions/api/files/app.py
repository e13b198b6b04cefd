"""Files: browse, make, rename, move, copy, remove."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query

from mangrove.problems import Denied, NotSupported
from mangrove.tasks import submit
from mangrove.tree import access, archives, browse, changes, transfers
from mangrove.web import dialects
from mangrove.web import fs_models as models
from mangrove.web.address import BaseUrl
from mangrove.web.api import Api, make_lambda_handler
from mangrove.web.dialects import RequestDialect
from mangrove.web.envelope import Reply, ok
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
)

api = Api("files")


@api.post("/api/fs/list", data_model=models.Listing)
async def list_(who: Reader, body: models.ListReq, base_url: BaseUrl) -> Reply:
    folder = await access.at(who, body.path, body.password)
    return ok(await browse.list_folder(folder, browse.Slice(body.page, body.per_page), body.refresh, base_url))


@api.get("/api/fs/list", data_model=models.Listing)
async def list_by_query(who: Reader, query: Annotated[models.ListQuery, Query()], base_url: BaseUrl) -> Reply:
    return await list_(who, query.to_body(), base_url)


@api.post("/api/fs/get", data_model=models.SingleObject)
async def get(who: Reader, body: models.ListReq, base_url: BaseUrl) -> Reply:
    return ok(await browse.get_object(await access.at(who, body.path, body.password), base_url))


@api.get("/api/fs/get", data_model=models.SingleObject)
async def get_by_query(who: Reader, query: Annotated[models.ListQuery, Query()], base_url: BaseUrl) -> Reply:
    return await get(who, query.to_body(), base_url)


@api.post("/api/fs/dirs", data_model=list[models.FolderName])
async def dirs(who: Reader, body: models.DirsReq) -> Reply:
    if body.force_root and not who.is_admin:
        raise Denied("Permission denied")
    folder = await access.at(who, body.path, body.password, confined=not body.force_root)
    return ok(await browse.list_subfolders(folder))


@api.get("/api/fs/dirs", data_model=list[models.FolderName])
async def dirs_by_query(who: Reader, query: Annotated[models.DirsQuery, Query()]) -> Reply:
    return await dirs(who, query.to_body())


@api.post("/api/fs/other")
async def other(who: Reader, body: models.OtherReq) -> Reply:
    await access.locate((await access.at(who, body.path, body.password)).require_read())
    raise NotSupported


@api.post("/api/fs/link", data_model=models.DirectLink)
async def link(who: Admin, body: models.LinkReq, base_url: BaseUrl) -> Reply:
    found = await browse.get_link(await access.at(who, body.path, confined=False), base_url)
    lifetime = None if found.lifetime is None else int(found.lifetime * 1e9)
    data: dict[str, Any] = {"url": found.url, "header": dict(found.headers) or None, "Expiration": lifetime}
    return ok(data | {"concurrency": 0, "part_size": 0, "content_length": 0})


@api.post("/api/fs/mkdir")
async def mkdir(who: Writer, body: models.MkdirReq) -> Reply:
    await changes.mkdir(await access.at(who, body.path))
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
    folder = await access.at(who, body.src_dir)
    await changes.rename_by_pattern(folder, body.src_name_regex, body.new_name_regex)
    return ok()


def _build_conflict(body: models.MoveCopyReq) -> transfers.OnConflict:
    return transfers.OnConflict(body.overwrite, body.skip_existing, body.merge)


@api.post("/api/fs/move", data_model=models.Done | None)
async def move(who: Mover, body: models.MoveCopyReq, dialect: RequestDialect) -> Reply:
    ends = await access.at(who, body.src_dir), await access.at(who, body.dst_dir)
    tasks = await submit.move(*ends, body.names, _build_conflict(body))
    return ok(dialects.format_transfer("Move", tasks, dialect))


@api.post("/api/fs/copy", data_model=models.Done | None)
async def copy(who: Copier, body: models.MoveCopyReq, dialect: RequestDialect) -> Reply:
    ends = await access.at(who, body.src_dir), await access.at(who, body.dst_dir)
    tasks = await submit.copy(*ends, body.names, _build_conflict(body))
    return ok(dialects.format_transfer("Copy", tasks, dialect))


@api.post("/api/fs/recursive_move")
async def recursive_move(who: Mover, body: models.RecursiveMoveReq, dialect: RequestDialect) -> Reply:
    ends = await access.at(who, body.src_dir), await access.at(who, body.dst_dir)
    count = await transfers.move_files(*ends, body.conflict_policy or "cancel")
    return ok(message=dialects.format_recursive_move(count, dialect))


@api.post("/api/fs/add_offline_download", data_model=models.Opened)
async def add_offline_download(who: Downloader, body: models.OfflineDownloadReq, dialect: RequestDialect) -> Reply:
    folder = await access.at(who, body.path)
    tasks = await submit.download(folder, body.urls, body.tool, body.delete_policy)
    return ok({"tasks": [dialects.format_created_task(task, dialect) for task in tasks]})


@api.post("/api/fs/archive/meta", data_model=models.ArchiveMeta)
async def archive_meta(who: ArchiveReader, body: models.ArchiveReq, base_url: BaseUrl) -> Reply:
    archive = await access.at(who, body.path, body.password)
    return ok(await archives.get_meta(archive, body.archive_pass, base_url))


@api.get("/api/fs/archive/meta", data_model=models.ArchiveMeta)
async def archive_meta_by_query(
    who: ArchiveReader, query: Annotated[models.ArchiveQuery, Query()], base_url: BaseUrl
) -> Reply:
    return await archive_meta(who, query.to_body(), base_url)


@api.post("/api/fs/archive/list", data_model=models.ArchiveListing)
async def archive_list(who: ArchiveReader, body: models.ArchiveListReq) -> Reply:
    archive = await access.at(who, body.path, body.password)
    part = browse.Slice(body.page, body.per_page)
    return ok(await archives.list_folder(archive, body.archive_pass, body.inner_path, part))


@api.get("/api/fs/archive/list", data_model=models.ArchiveListing)
async def archive_list_by_query(who: ArchiveReader, query: Annotated[models.ArchiveListQuery, Query()]) -> Reply:
    return await archive_list(who, query.to_body())


@api.post("/api/fs/archive/decompress", data_model=models.Unpacking)
async def decompress(who: Unpacker, body: models.DecompressReq, dialect: RequestDialect) -> Reply:
    ends = await access.at(who, body.src_dir), await access.at(who, body.dst_dir)
    options = submit.DecompressOptions(
        body.archive_pass, body.inner_path, body.cache_full, body.put_into_new_dir, body.overwrite
    )
    tasks = await submit.decompress(*ends, body.name, options)
    return ok({"task": [dialects.format_created_task(task, dialect) for task in tasks]})


@api.post("/api/fs/remove")
async def remove(who: Remover, body: models.RemoveReq) -> Reply:
    await changes.remove(await access.at(who, body.dir), body.names)
    return ok()


@api.post("/api/fs/remove_empty_directory")
async def remove_empty_directory(who: Remover, body: models.RemoveEmptyReq) -> Reply:
    await changes.remove_empty(await access.at(who, body.src_dir))
    return ok()


app = api.app
handler = make_lambda_handler(app)
