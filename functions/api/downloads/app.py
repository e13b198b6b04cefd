"""Downloads: `/d` redirects to the storage if possible, `/p` always passes the bytes through, `/ae` unpacks."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from mangrove.core.http import find_client
from mangrove.core.limits import limits
from mangrove.identity.rights import Right
from mangrove.tree.operations import thumbnails
from mangrove.tree.operations.downloads import Download, authorize_download
from mangrove.tree.operations.links import Purpose
from mangrove.tree.sharing.downloads import SharedDownload, authorize
from mangrove.tree.sharing.visits import hide_paths
from mangrove.web.address import find_base_url, find_client_address
from mangrove.web.downloads import NO_STORE, serve_archive_member, serve_bytes, serve_download
from mangrove.web.flavours import find_flavour
from mangrove.web.lambda_handler import make_lambda_handler
from mangrove.web.public_api import PublicApi, QueryText
from mangrove.web.serving import serve_file, serve_image

api = PublicApi("downloads")
PAGE: dict[str, Any] = {"content": {"text/html": {"schema": {"type": "string"}}}}
BYTES: dict[str, Any] = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
FILE_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: BYTES | {"description": "The file"},
    206: BYTES | {"description": "The requested ranges of the file"},
    302: {"description": "The address of the file"},
    304: {"description": "Not modified"},
    401: PAGE | {"description": "The signature is missing, wrong or expired"},
    403: PAGE | {"description": "Reading is not allowed here, or not in this way"},
    404: PAGE | {"description": "No such file"},
    412: {"description": "A condition of the request is false"},
    416: {"description": "The file has none of the requested bytes"},
    429: PAGE | {"description": "Too many such requests are running"},
    500: PAGE | {"description": "The storage does not answer, or does not return the file"},
}
MEMBER_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: BYTES | {"description": "The file, unpacked"},
    302: FILE_RESPONSES[302],
    401: FILE_RESPONSES[401],
    403: PAGE | {"description": "The archive needs a (different) password"},
    404: PAGE | {"description": "No such archive, or no such file in it"},
    429: FILE_RESPONSES[429],
    500: PAGE | {"description": "The archive cannot be read"},
}
ZIP_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}}}
    | {"description": "The ZIP file"},
    401: FILE_RESPONSES[401],
    403: FILE_RESPONSES[403],
    404: PAGE | {"description": "No such folder, or the link has ended"},
    413: PAGE | {"description": "More files or bytes than an archive may have, or than pass through a function"},
    429: FILE_RESPONSES[429],
    500: FILE_RESPONSES[500],
}


def _forward_parameters(request: Request, file: Download, url: str) -> str:
    """Return the link with the request's own parameters, if the settings require that."""
    if not file.settings.forward_direct_link_params:
        return url
    ignored = file.settings.ignore_direct_link_params
    forwarded = [
        (name, value) for name, value in request.query_params.multi_items() if name not in ignored and name != "path"
    ]
    return f"{url}{'&' if '?' in url else '?'}{urlencode(forwarded)}" if forwarded else url


async def _serve_thumbnail(request: Request, file: Download) -> Response:
    driver = file.storage_path.driver
    async with limits().thumbnails.hold(find_client(await find_client_address(request))):
        if not driver.capabilities.make_thumbnail:
            return serve_image(*await thumbnails.make(file))
        return serve_image(*await driver.make_thumbnail(file.storage_path.path))


FULL_PATH = QueryText("path", "The path, if the address cannot contain it because it has a question mark.")
SIGN = QueryText("sign", "Signature of the link; empty if none is needed.")
THUMB = QueryText("type", "`thumb` for a thumbnail of the file.")
VERSION = QueryText("version", "Id of a version of the file; empty for the present one.")
FILE: dict[str, Any] = {
    "gate": "anyone",
    "path_description": "Path in the tree.",
    "query": (FULL_PATH, SIGN, VERSION, THUMB),
    "response_class": Response,
}
MEMBER: dict[str, Any] = {
    "gate": "anyone",
    "path_description": "Path of the archive in the tree.",
    "query": (
        FULL_PATH,
        QueryText("inner", "Path of the file inside the archive."),
        QueryText("pass", "The archive's password, if it has one."),
        SIGN,
    ),
    "response_class": Response,
}
SELECTION: dict[str, Any] = {
    "gate": "anyone",
    "path_description": "Path of the folder in the tree.",
    "query": (FULL_PATH, QueryText("id", "Id of the selection; empty for the whole folder."), SIGN),
    "response_class": Response,
}


async def _authorize(request: Request, purpose: Purpose = Purpose.FILE) -> Download:
    path = request.query_params.get(FULL_PATH.name) or request.path_params["path"]
    version = request.query_params.get(VERSION.name, "")
    return await authorize_download(path, request.query_params.get(SIGN.name, ""), purpose, version)


@api.get("/d/{path:path}", responses=FILE_RESPONSES, **FILE)
@api.route("HEAD", "/d/{path:path}", summary="Download Head", **FILE)
async def download(request: Request) -> Response:
    """Return the bytes of a file, or redirect to its address at the storage.

    HEAD is answered here if that address expires: it is signed for GET only.
    """
    file = await _authorize(request)
    if request.query_params.get("type") == "thumb":
        return await _serve_thumbnail(request, file)
    link = None if file.must_proxy else await file.get_link()
    if link is None:
        return await serve_download(request, file)
    if request.method == "HEAD" and link.lifetime is not None:
        return await serve_file(request, file.storage_path.driver, file.storage_path.path, file.path.name, file.stat)
    base_url = await find_base_url(request, await find_flavour(request))
    url = base_url + link.url if link.url.startswith("/") else link.url
    return RedirectResponse(_forward_parameters(request, file, url), 302, headers=NO_STORE)


@api.get("/p/{path:path}", responses=FILE_RESPONSES, **FILE)
@api.route("HEAD", "/p/{path:path}", summary="Proxy Head", **FILE)
async def proxy(request: Request) -> Response:
    """Return the bytes of a file through this service, if the storage allows that."""
    file = await _authorize(request)
    if request.query_params.get("type") == "thumb":
        return await _serve_thumbnail(request, file)
    await file.require_proxy()
    return await serve_download(request, file)


@api.get("/ae/{path:path}", responses=MEMBER_RESPONSES, **MEMBER)
@api.route("HEAD", "/ae/{path:path}", summary="Archive Member Head", **MEMBER)
async def archive_member(request: Request) -> Response:
    """Return the bytes of a file in an archive."""
    query = request.query_params
    file = await _authorize(request, Purpose.ARCHIVE)
    source = find_client(await find_client_address(request))
    return await serve_archive_member(request, file, query.get("inner", ""), query.get("pass", ""), source)


@api.get("/zip/{path:path}", responses=ZIP_RESPONSES, **SELECTION)
@api.route("HEAD", "/zip/{path:path}", summary="Zip Head", **SELECTION)
async def zip_(request: Request) -> Response:
    """Return a folder, or some of its entries, as a ZIP file. `POST /api/fs/zip` makes the link."""
    query = request.query_params
    path = query.get(FULL_PATH.name) or request.path_params["path"]
    source = find_client(await find_client_address(request))
    from mangrove.web import zips  # with tasks, which other downloads do not need

    return await zips.serve_link(request, path, query.get("id", ""), query.get(SIGN.name, ""), source)


PASSWORD = QueryText("pwd", "Password of the share link, if it has one.")
ZIP = QueryText(
    "zip",
    "If it is there, a folder is returned as a ZIP file, with all that is below it. With the id of a task, the request "
    "is redirected to the file that the task has made.",
)
NAMES = QueryText("names", "An entry of the folder that the ZIP file takes; repeated for several, absent for all.")
SHARED_RESPONSES: dict[int | str, dict[str, Any]] = FILE_RESPONSES | {
    413: {"content": PAGE["content"] | {"text/plain": {"schema": {"type": "string"}}}}
    | {"description": "The ZIP file does not pass through a function: `Link` has the page that requests it"}
}
SHARED_FILE: dict[str, Any] = FILE | {
    "path_description": "Id of a share link, and the path of a file in it.",
    "query": (FULL_PATH, PASSWORD, THUMB, ZIP, NAMES),
}
SHARED_MEMBER: dict[str, Any] = MEMBER | {
    "path_description": "Id of a share link, and the path of an archive in it.",
    "query": (FULL_PATH, *MEMBER["query"][1:3], PASSWORD),
}


async def _authorize_shared(request: Request, right: Right = Right.READ) -> SharedDownload:
    query = request.query_params
    path = query.get(FULL_PATH.name) or request.path_params["path"]
    return await authorize(path, query.get(PASSWORD.name, ""), await find_client_address(request), right)


@api.get("/sd/{path:path}", responses=SHARED_RESPONSES, **SHARED_FILE)
@api.route("HEAD", "/sd/{path:path}", summary="Shared Download Head", **SHARED_FILE)
async def shared_download(request: Request) -> Response:
    """Return the bytes of a shared file, or a shared folder as a ZIP file with the query `zip`.

    A file is redirected to its address at the storage if the settings allow that.
    """
    query = request.query_params
    with hide_paths("download"):
        if ZIP.name in query:
            from mangrove.web import zips

            path = query.get(FULL_PATH.name) or request.path_params["path"]
            source = await find_client_address(request)
            names = query.getlist(NAMES.name)
            if id := query[ZIP.name]:
                return await zips.serve_shared_archive(path, query.get(PASSWORD.name, ""), source, id)
            return await zips.serve_shared(request, path, query.get(PASSWORD.name, ""), source, names)
        shared = await _authorize_shared(request)
        file = shared.file
        if request.query_params.get("type") == "thumb":
            shared.require_preview()
            return await _serve_thumbnail(request, file)
        link = None if shared.must_proxy else await file.get_link()
        if link is None or link.url.startswith("/") or (request.method == "HEAD" and link.lifetime is not None):
            return await serve_bytes(request, file)
        return RedirectResponse(link.url, 302, headers=NO_STORE)


@api.get("/sad/{path:path}", responses=MEMBER_RESPONSES, **SHARED_MEMBER)
@api.route("HEAD", "/sad/{path:path}", summary="Shared Archive Member Head", **SHARED_MEMBER)
async def shared_archive_member(request: Request) -> Response:
    """Return the bytes of a file in a shared archive."""
    query = request.query_params
    with hide_paths("download"):
        shared = await _authorize_shared(request, Right.READ_ARCHIVES)
        source = find_client(await find_client_address(request))
        return await serve_archive_member(request, shared.file, query.get("inner", ""), query.get("pass", ""), source)


app = api.app
handler = make_lambda_handler(app)
