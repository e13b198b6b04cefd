"""Downloads through the service, for every protocol over HTTP; a file too large for a function is staged."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from mangrove.core.http import forward_headers, guess_mime
from mangrove.core.problems import TooLarge
from mangrove.tasks.download import staged_downloads
from mangrove.tree.operations import archives
from mangrove.tree.operations.downloads import Download
from mangrove.web.serving import serve_file, serve_member

NO_STORE = {"referrer-policy": "no-referrer", "cache-control": "max-age=0, no-cache, no-store, must-revalidate"}


async def serve_download(request: Request, file: Download) -> Response:
    """Answer GET or HEAD with the file, or with its address at its storage's download proxy."""
    proxy_url = file.get_down_proxy_url()
    if proxy_url is not None and not {"d", "version"} & {*request.query_params}:
        return RedirectResponse(proxy_url, 302)
    return await serve_bytes(request, file)


async def serve_bytes(request: Request, file: Download) -> Response:
    """Answer GET or HEAD with the file; if it is too large for a function, with the address at which it is staged."""
    forward_headers(request.headers.items(), file.settings.proxy_ignore_headers)
    try:
        return await serve_file(request, file.storage_path.driver, file.storage_path.path, file.path.name, file.stat)
    except TooLarge:
        url = await staged_downloads.stage(file.storage_path, await file.stat(anew=True), guess_mime(file.path.name))
        return RedirectResponse(url, 302, headers=NO_STORE)


async def serve_archive_member(request: Request, file: Download, inside: str, password: str, caller: str) -> Response:
    """Answer GET or HEAD with a file of an archive, as `serve_bytes`. The concurrency limit counts `caller`."""
    try:
        return await serve_member(request, await archives.open_member(file, inside, password, caller), NO_STORE)
    except TooLarge:
        member = await archives.open_member(file, inside, password, caller)
        url = await staged_downloads.stage_member(file.storage_path, member, guess_mime(member.member.path))
        return RedirectResponse(url, 302, headers=NO_STORE)
