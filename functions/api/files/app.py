"""Files: browse, create, rename, move, copy and remove them."""

from __future__ import annotations

from typing import Annotated, Any

from starlette.responses import Response

from mangrove.core.problems import AccessDenied, NotSupported
from mangrove.identity.rights import Caller, Right
from mangrove.tasks import submit
from mangrove.tree import access
from mangrove.tree.access import PathAccess
from mangrove.tree.listing import browse, objects
from mangrove.tree.listing.browse import PageRequest
from mangrove.tree.operations import archives, changes
from mangrove.tree.operations.plans import OnConflict, TransferRequest
from mangrove.tree.sharing import visits
from mangrove.tree.trash import entries, versions
from mangrove.web import events, flavours, trash_models, zip_links
from mangrove.web import file_models as models
from mangrove.web.api import Api, make_lambda_handler
from mangrove.web.envelope import Reply, ok, stream
from mangrove.web.fields import Stored
from mangrove.web.flavours import ApiFlavour
from mangrove.web.framework import Header, Request, require_fields, require_in_query
from mangrove.web.gates import (
    Admin,
    BaseUrl,
    ClientAddress,
    Copier,
    Downloader,
    Gate,
    Mover,
    Reader,
    Remover,
    Renamer,
    RequestFlavour,
    ShareArchiveReader,
    ShareReader,
    ShareSession,
    Unpacker,
    Writer,
    name_caller,
)
from mangrove.web.trash_models import format_outcome, format_page, format_versions

api = Api("files")
EventPath = Annotated[str, require_in_query("The folder to watch, below the caller's root.")]
EventPassword = Annotated[str, Header(max_length=4096, description="The folder's password, if a rule sets one.")]


def _make_page_request(body: models.ListReq | models.ArchiveListReq) -> PageRequest:
    return PageRequest(body.page, body.per_page, body.order_by, body.order_direction)


@api.read("/api/fs/list", data_model=models.Listing)
async def list_(
    who: ShareReader, body: models.ListReq, base_url: BaseUrl, share_session: ShareSession = ""
) -> Response:
    """List a page of a folder."""
    page = _make_page_request(body)
    async with visits.open_path(who, body.path, body.password) as folder:
        listing = await browse.list_folder(folder, page, body.refresh, base_url, share_session)
    return stream(listing)


@api.read("/api/fs/get", data_model=models.SingleObject)
async def get(who: ShareReader, body: models.GetReq, base_url: BaseUrl) -> Response:
    """Return a file or folder, with the address of its bytes."""
    async with visits.open_path(who, body.path, body.password, "get") as path_access:
        return stream(await objects.get_object(path_access, base_url))


@api.read("/api/fs/dirs", data_model=list[models.FolderName])
async def dirs(who: Reader, body: models.DirsReq) -> Response:
    """List the folders in a folder."""
    if body.force_root and not who.is_admin:
        raise AccessDenied("Permission denied")
    folder = await access.at(who, body.path, body.password, confined=not body.force_root)
    return stream(await browse.list_subfolders(folder))


@api.get("/api/events", response_class=Response, responses=events.ANSWERS)
async def follow_events(
    who: Reader, request: Request, client_address: ClientAddress, path: EventPath = "", password: EventPassword = ""
) -> Response:
    """Send server-sent events: changes in a folder, progress of tasks, and for administrators states of storages.

    It is not available on AWS.
    """
    events.require_support()
    require_fields(path=path)
    gate = Gate("visitor", Right.READ)  # for each event, as `Reader` is for the request

    async def evaluate() -> PathAccess:
        return await access.at(await gate(request), path, password)

    return events.EventStream(path, evaluate, name_caller(who, client_address))


@api.post("/api/fs/other")
async def other(who: Reader, body: models.OtherReq) -> Reply:
    """Send a request to the driver; no driver of this version has any."""
    await (await access.at(who, body.path, body.password)).require_read().locate("")
    raise NotSupported


@api.post("/api/fs/link", data_model=models.DirectLink)
async def link(who: Admin, body: models.LinkReq, base_url: BaseUrl) -> Reply:
    """Return the address of a file at the storage itself."""
    direct_link = await objects.get_link(await access.at(who, body.path, confined=False), base_url)
    lifetime = None if direct_link.lifetime is None else int(direct_link.lifetime * 1e9)
    data: dict[str, Any] = {"url": direct_link.url, "header": dict(direct_link.headers) or None, "Expiration": lifetime}
    return ok(data | {"concurrency": 0, "part_size": 0, "content_length": 0})


@api.post("/api/fs/mkdir")
async def mkdir(who: Writer, body: models.MkdirReq) -> Reply:
    """Create a folder and its missing parents."""
    await changes.mkdir(await access.at(who, body.path))
    return ok()


@api.post("/api/fs/rename", data_model=models.Done | None, creates_tasks=True)
async def rename(who: Renamer, body: models.RenameReq, flavour: RequestFlavour) -> Reply:
    """Rename a file or folder, at once or as a task."""
    tasks = await submit.rename(await access.at(who, body.path, body.password), body.name, body.overwrite)
    return ok(flavours.format_remaining(tasks, flavour))


@api.post("/api/fs/batch_rename", data_model=models.Done | None, creates_tasks=True)
async def batch_rename(who: Renamer, body: models.BatchRenameReq, flavour: RequestFlavour) -> Reply:
    """Rename entries of a folder, each to its own name, at once or as a task."""
    pairs = ((item.src_name, item.new_name) for item in body.rename_objects)
    new_names = {old: new for old, new in pairs if old and new}
    tasks = await submit.rename_all(await access.at(who, body.src_dir, body.password), new_names)
    return ok(flavours.format_remaining(tasks, flavour))


@api.post("/api/fs/regex_rename", data_model=models.Done | None, creates_tasks=True)
async def regex_rename(who: Renamer, body: models.RegexRenameReq, flavour: RequestFlavour) -> Reply:
    """Rename entries of a folder by a pattern, at once or as a task."""
    folder = await access.at(who, body.src_dir, body.password)
    tasks = await submit.rename_by_pattern(folder, body.src_name_regex, body.new_name_regex)
    return ok(flavours.format_remaining(tasks, flavour))


async def _find_ends(
    who: Caller, body: models.MoveCopyReq | models.RecursiveMoveReq | models.DecompressReq | models.CompressReq
) -> tuple[access.PathAccess, access.PathAccess]:
    """Return the source folder and the target folder."""
    return await access.at(who, body.src_dir, body.password), await access.at(who, body.dst_dir, body.password)


async def _transfer(right: Right, who: Caller, body: models.MoveCopyReq, flavour: ApiFlavour) -> Reply:
    source_dir, target_dir = await _find_ends(who, body)
    conflict = OnConflict(body.overwrite, body.skip_existing, body.merge, body.keep_both)
    tasks = await submit.transfer(TransferRequest(right, source_dir, target_dir, body.names, conflict))
    return ok(await flavours.encode_transfer("Move" if right is Right.MOVE else "Copy", tasks, flavour))


@api.post("/api/fs/move", data_model=models.Done | None, creates_tasks=True)
async def move(who: Mover, body: models.MoveCopyReq, flavour: RequestFlavour) -> Reply:
    """Move entries into another folder, at once or as tasks."""
    return await _transfer(Right.MOVE, who, body, flavour)


@api.post("/api/fs/copy", data_model=models.Done | None, creates_tasks=True)
async def copy(who: Copier, body: models.MoveCopyReq, flavour: RequestFlavour) -> Reply:
    """Copy entries into another folder, at once or as tasks."""
    return await _transfer(Right.COPY, who, body, flavour)


@api.post("/api/fs/recursive_move", data_model=models.Done | None, creates_tasks=True)
async def recursive_move(who: Mover, body: models.RecursiveMoveReq, flavour: RequestFlavour) -> Reply:
    """Move all files below a folder into another folder, without their subfolders, at once or as a task."""
    ends = await _find_ends(who, body)
    count, tasks = await submit.move_files(*ends, body.conflict_policy or "cancel")
    message = flavours.format_recursive_move(count, tasks, flavour)
    return ok(flavours.format_remaining(tasks, flavour), message=message)


@api.post("/api/fs/add_offline_download", data_model=models.Opened, creates_tasks=True)
async def add_offline_download(who: Downloader, body: models.OfflineDownloadReq, flavour: RequestFlavour) -> Reply:
    """Download addresses into a folder."""
    folder = await access.at(who, body.path)
    tasks = await submit.download(folder, body.urls, body.tool, body.delete_policy)
    return ok({"tasks": [flavours.format_created_task(task, flavour) for task in tasks]})


@api.read("/api/fs/archive/meta", data_model=models.ArchiveMeta)
async def archive_meta(
    who: ShareArchiveReader, body: models.ArchiveReq, base_url: BaseUrl, client_address: ClientAddress
) -> Reply:
    """Return the properties of an archive and all its entries."""
    async with visits.open_path(who, body.path, body.password, "get archive of") as archive:
        return ok(await archives.get_meta(archive, body.archive_pass, base_url, name_caller(who, client_address)))


@api.read("/api/fs/archive/list", data_model=models.ArchiveListing)
async def archive_list(who: ShareArchiveReader, body: models.ArchiveListReq, client_address: ClientAddress) -> Response:
    """List a page of a folder inside an archive."""
    caller, page = name_caller(who, client_address), _make_page_request(body)
    async with visits.open_path(who, body.path, body.password, "list archive of") as archive:
        listing = await browse.list_archive(archive, body.archive_pass, body.inner_path, page, caller)
    return stream(listing)


@api.post("/api/fs/archive/decompress", data_model=models.Unpacking, creates_tasks=True)
async def decompress(who: Unpacker, body: models.DecompressReq, flavour: RequestFlavour) -> Reply:
    """Unpack archives into a folder, as tasks."""
    ends = await _find_ends(who, body)
    options = submit.DecompressOptions(
        body.archive_pass, body.inner_path, body.cache_full, body.put_into_new_dir, body.overwrite
    )
    tasks = await submit.decompress(*ends, body.name, options)
    return ok({"task": [flavours.format_created_task(task, flavour) for task in tasks]})


@api.post("/api/fs/archive/compress", data_model=Stored, creates_tasks=True)
async def compress(who: Writer, body: models.CompressReq, flavour: RequestFlavour) -> Reply:
    """Pack entries of a folder into a new archive of another folder, as a task."""
    task = await submit.compress(*await _find_ends(who, body), body.names, body.name)
    return ok({"task": flavours.format_created_task(task, flavour)})


@api.post("/api/fs/zip", data_model=models.ZipLink, creates_tasks=True)
async def zip_(who: ShareReader, body: models.ZipReq, base_url: BaseUrl, flavour: RequestFlavour) -> Reply:
    """Return the address of a ZIP file of some entries of a folder. It is valid for one hour.

    The address of a ZIP file of a share link is valid as long as the link.
    """
    async with visits.open_path(who, body.dir, body.password, "get") as folder:
        make_link = zip_links.make_link if folder.share is None else zip_links.make_shared_link
        link = await make_link(folder, body.names, base_url)
    return ok({"url": link.url, "task": link.task and flavours.format_created_task(link.task, flavour)})


@api.post("/api/fs/remove", data_model=models.Done | None, creates_tasks=True)
async def remove(who: Remover, body: models.RemoveReq, flavour: RequestFlavour) -> Reply:
    """Remove entries of a folder with their contents, at once or as a task."""
    tasks = await submit.remove(await access.at(who, body.dir, body.password), body.names)
    return ok(flavours.format_remaining(tasks, flavour))


@api.post("/api/fs/remove_empty_directory", data_model=models.Done | None, creates_tasks=True)
async def remove_empty_directory(who: Remover, body: models.RemoveEmptyReq, flavour: RequestFlavour) -> Reply:
    """Remove the empty folders below a folder, at once or as a task."""
    tasks = await submit.remove_empty(await access.at(who, body.src_dir, body.password))
    return ok(flavours.format_remaining(tasks, flavour))


@api.read("/api/fs/trash/list", data_model=trash_models.TrashListing)
async def trash_list(who: Reader, body: trash_models.TrashListReq) -> Reply:
    """List removed entries: your own, those of a folder, or as an administrator all."""
    query = await _make_trash_query(who, body.path, body.password)
    days = None if query.folder is None else entries.find_days(query.folder)
    return ok(format_page(who, *await entries.list_page(query, body.start, body.per_page), days))


@api.post("/api/fs/trash/restore", data_model=trash_models.TrashRestored, creates_tasks=True)
async def trash_restore(who: Remover, body: trash_models.TrashRestoreReq, flavour: RequestFlavour) -> Reply:
    """Restore removed entries to where they were, at once or as a task.

    A taken name gets a number unless `overwrite` is set.
    """
    ids = body.ids
    if body.names:
        ids = await entries.find_newest(who, await access.at(who, body.dir, body.password), body.names)
    outcome, task = await submit.restore(who, ids, body.overwrite, body.password)
    return ok(format_outcome(who, outcome) | {"task": task and flavours.format_created_task(task, flavour)})


@api.post("/api/fs/trash/delete", data_model=trash_models.TrashOutcome)
async def trash_delete(who: Remover, body: trash_models.TrashIdsReq) -> Reply:
    """Permanently delete removed entries."""
    return ok(format_outcome(who, await entries.delete(who, body.ids, body.password)))


@api.post("/api/fs/trash/empty", data_model=trash_models.TrashEmptied)
async def trash_empty(who: Remover, body: trash_models.TrashEmptyReq) -> Reply:
    """Permanently delete your removed entries, those of a folder, or as an administrator all."""
    outcome, has_more = await entries.empty(await _make_trash_query(who, body.path, body.password))
    return ok({"deleted": len(outcome.done), "failed": len(outcome.failed), "more": has_more})


@api.read("/api/fs/versions", data_model=trash_models.Versions)
async def list_versions(who: Reader, body: trash_models.VersionsReq) -> Reply:
    """List the versions of a file."""
    file = await access.at(who, body.path, body.password)
    return ok(format_versions(file, await versions.list_versions(file)))


@api.post("/api/fs/versions/restore")
async def restore_version(who: Writer, body: trash_models.VersionRestoreReq) -> Reply:
    """Make a version of a file the present one, which is kept as a version."""
    await versions.restore_version(await access.at(who, body.path, body.password), body.id)
    return ok()


async def _make_trash_query(who: Caller, path: str, password: str) -> entries.TrashQuery:
    folder = (await access.at(who, path, password)).require_read() if path else None
    return entries.TrashQuery(who, folder, password)


app = api.app
handler = make_lambda_handler(app)
