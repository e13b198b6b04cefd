"""aria2 through its JSON-RPC over HTTP."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from typing import Any

from mangrove.core import runtime
from mangrove.core.problems import Problem, Unreachable
from mangrove.net.addresses import LOCAL_POLICY, AddressPolicy
from mangrove.net.client import make_client, request
from mangrove.net.proxy import GuardedProxy
from mangrove.tools import torrents, urls
from mangrove.tools.base import DownloadStatus, DownloadTool

OPTIONS = {
    "allow-overwrite": "true",  # a retry overwrites the files of the previous attempt
    "auto-file-renaming": "false",
    "check-certificate": "true",
    "continue": "true",
    "follow-torrent": "false",  # its trackers and peers were not requested
    "follow-metalink": "false",
    "no-netrc": "true",  # no password of this machine is sent
    "pause-metadata": "false",
    "seed-time": "0",  # minutes
    "bt-stop-timeout": "86400",  # seconds without a byte until a torrent fails
    "rpc-save-upload-metadata": "false",  # no torrent file beside the content
    "proxy-method": "tunnel",
    "no-proxy": "",
}
# each, since aria2's own configuration file may set each
PROXY_OPTIONS = ("http-proxy", "https-proxy", "ftp-proxy", "all-proxy")
STATUS_KEYS = ["gid", "status", "totalLength", "completedLength", "errorCode", "followedBy", "following"]
CALL_SIZE = 4096  # bytes of a call beside a torrent
DEFAULT_CALL_SIZE = 2 << 20  # bytes that aria2 accepts by default
REMOVE_ATTEMPTS = 100  # 50 ms apart, until a download has stopped
# By aria2's exit codes; its own messages would show paths of this machine.
ERRORS = {
    1: "a server was not reached, or is not of those that downloads may reach",  # so it ends when the proxy refuses
    2: "the server did not answer in time",
    3: "the file was not found",
    4: "the file was not found too often",
    5: "the download was too slow",
    6: "the network failed",
    8: "the server cannot continue a download",
    9: "the disk is full",
    10: "the torrent comes in other pieces than before",
    11: "the same file is being downloaded already",
    12: "the same torrent is being downloaded already",
    13: "a file of that name is there",
    19: "the name of the server was not found",
    21: "the FTP command failed",
    22: "the server refused or answered badly",
    23: "too many redirects",
    24: "the server asks for a user and a password",
    25: "the torrent file cannot be read",
    26: "the torrent file is broken",
    27: "the magnet link is broken",
    29: "the server is overloaded",
    32: "the file is not what its checksum says",
}


class Aria2Error(Problem):
    """aria2 answers with an error of its own."""


class UnknownDownload(Aria2Error):
    """aria2 does not know a download with this GID."""


class Aria2(DownloadTool):
    """The tool aria2. Its HTTP and FTP requests, including those to trackers and web seeds, pass the guarded proxy of
    this process.

    Peers of a torrent and trackers over UDP do not.
    """

    name = "aria2"

    def __init__(self, uri: str, secret: str, policy: AddressPolicy) -> None:
        """`uri`: the RPC address of aria2; `policy`: for the URLs that it downloads."""
        self._uri = _to_http(uri)
        self._secret = secret
        self._policy = policy

    async def get_version(self) -> str:
        try:
            return str((await self._call("getVersion"))["version"])[:40]
        except Unreachable as error:
            raise Unreachable(f"failed get aria2 version: {error.message}") from None
        except Problem as error:
            raise error.with_prefix("failed get aria2 version") from None
        except (TypeError, KeyError):
            raise Problem("failed get aria2 version: no answer of aria2") from None

    async def add(self, url: str, folder: str, key: str) -> str:
        url = urls.normalize_url(url, self.name)
        gid = hashlib.sha256(key.encode()).hexdigest()[:16]
        download = await self._find_download(gid)
        if download and download["status"] not in ("error", "removed"):
            return gid
        if download:
            await self.remove(gid)
        options = OPTIONS | self._open_proxy() | {"gid": gid, "dir": folder}
        if urls.names_torrent(url):
            torrent = base64.b64encode(await torrents.fetch_torrent(url, self._policy, self.name)).decode()
            await self._require_size(len(torrent))
            await self._call("addTorrent", torrent, [], options)
        else:
            await urls.check_url_hosts(url, self._policy)
            await self._call("addUri", [url], options)
        return gid

    async def resume(self, token: str, url: str, folder: str, key: str) -> str:
        download = await self._find_download(token)
        if download and download["status"] == "error":
            return await self.add(url, folder, key)  # perhaps without the proxy, which ended with its process
        if download and download["status"] != "complete":
            await self._try_call("changeOption", token, self._open_proxy())
        return token

    def _open_proxy(self) -> dict[str, str]:
        """Return the options with which a download uses the proxy of this process; other processes cannot use it."""
        proxy = runtime.get(GuardedProxy).open(self._policy)
        options = {name: proxy.url for name in PROXY_OPTIONS}
        options |= {f"{name}-user": proxy.user for name in PROXY_OPTIONS}
        return options | {f"{name}-passwd": proxy.password for name in PROXY_OPTIONS}

    async def _require_size(self, size: int) -> None:
        """Raise Problem if aria2 does not accept a call of this size, in bytes: it would close the connection
        without an answer.
        """
        if size + CALL_SIZE <= DEFAULT_CALL_SIZE:
            return
        most = int((await self._call("getGlobalOption")).get("rpc-max-request-size") or DEFAULT_CALL_SIZE)
        if size + CALL_SIZE > most:
            raise Problem("the torrent file is larger than aria2's option rpc-max-request-size lets it take")

    async def get_status(self, token: str) -> DownloadStatus:
        self._open_proxy()  # for the present settings
        download = await self._find_download(token)
        if download is None:
            return DownloadStatus(token, error="aria2 does not know this download any more")
        followers = download.get("followedBy") or []
        if download["status"] == "complete" and followers:
            return await self.get_status(str(followers[0]))
        state = str(download["status"])
        error = ""
        if state == "error":
            code = int(download.get("errorCode") or 1)
            error = ERRORS.get(code, f"aria2 failed with its error {code}")
        elif state == "removed":
            error = "the download was removed from aria2"
        return DownloadStatus(
            token,
            done=state == "complete",
            downloaded=int(download.get("completedLength") or 0),
            total=int(download.get("totalLength") or 0),
            text=f"[aria2]: aria2: {state}",
            error=error,
        )

    async def remove(self, token: str) -> None:
        for _ in range(REMOVE_ATTEMPTS):
            download = await self._find_download(token)
            if download is None:
                return
            if download["status"] in ("active", "waiting", "paused"):
                await self._try_call("forceRemove", token)
                await asyncio.sleep(0.05)
                continue
            for follower in download.get("followedBy") or []:
                await self.remove(str(follower))
            await self._try_call("removeDownloadResult", token)
            if download.get("following"):
                await self._try_call("removeDownloadResult", str(download["following"]))
            return
        raise Problem("aria2 does not stop the download")

    async def remove_completed(self, token: str) -> None:
        await self.remove(token)

    async def _find_download(self, gid: str) -> dict[str, Any] | None:
        """Return the status of a download as aria2 reports it; None if there is none with this GID."""
        try:
            download = await self._call("tellStatus", gid, STATUS_KEYS)
        except UnknownDownload:
            return None
        if not isinstance(download, dict) or "status" not in download:
            raise Problem("no answer of aria2")
        return download

    async def _try_call(self, method: str, *parameters: Any) -> None:
        """Make a call that may fail because the download has changed its state, which the next status shows."""
        try:
            await self._call(method, *parameters)
        except Aria2Error:
            pass

    async def _call(self, method: str, *parameters: Any) -> Any:
        """Return the result of `aria2.<method>`.

        Raise Aria2Error with its message, Problem if another program answers.
        """
        call = {"jsonrpc": "2.0", "id": "mangrove", "method": f"aria2.{method}"}
        body = json.dumps(call | {"params": [f"token:{self._secret}", *parameters]})
        headers = {"content-type": "application/json"}
        async with make_client(LOCAL_POLICY) as client:
            response = await request(client, "POST", self._uri, content=body, headers=headers)
        return _parse_response(response.content)


def _parse_response(content: bytes) -> Any:
    """Return the result in a JSON-RPC response. Raise Aria2Error for an error in it."""
    try:
        response = json.loads(content)
    except (ValueError, RecursionError):
        raise Problem("no answer of aria2") from None
    if isinstance(response, dict) and "result" in response:
        return response["result"]
    error = response.get("error") if isinstance(response, dict) else None
    if not isinstance(error, dict) or "message" not in error:
        raise Problem("no answer of aria2")
    message = str(error["message"])[:200]
    # every error of aria2 has the code 1, so only its text identifies this one
    raise UnknownDownload(message) if "not found" in message else Aria2Error(message)


def _to_http(uri: str) -> str:
    """Return the HTTP address for a websocket address, which aria2 serves on the same port."""
    scheme, _, rest = uri.strip().partition("://")
    return f"{ {'ws': 'http', 'wss': 'https'}.get(scheme, scheme) }://{rest}"
