"""qBittorrent through its Web API of version 4.1 and later.

Its Python library is not used: it sends the password to any redirect target, reads the environment, and blocks.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx

from mangrove.core.problems import Problem, Unreachable
from mangrove.core.runtime import CacheKind
from mangrove.net.addresses import LOCAL_POLICY, AddressPolicy
from mangrove.net.client import make_client, request
from mangrove.tools import torrents, urls
from mangrove.tools.base import DownloadStatus, DownloadTool

ADD_TIMEOUT = 10.0  # seconds until an added torrent is listed
_COMPLETE_STATES = frozenset({"uploading", "pausedUP", "stoppedUP", "queuedUP", "stalledUP", "forcedUP"})
_STOPPED_STATES = frozenset({"pausedUP", "stoppedUP"})
_ERROR_STATES = {"error": "qBittorrent reports an error", "missingFiles": "files of the torrent are missing"}


SESSIONS: CacheKind[str, dict[str, str]] = CacheKind(
    "qBittorrent sessions", 16
)  # cookies by URL with user and password


class QBittorrent(DownloadTool):
    name = "qBittorrent"

    def __init__(self, url: str, seedtime: int, policy: AddressPolicy) -> None:
        """`url`: of the Web UI, with user and password; `seedtime`: in minutes, negative for no end; `policy`: for the
        URLs of torrent files."""
        self._url = url
        self._seedtime = seedtime
        self._policy = policy

    async def get_version(self) -> str:
        async with make_client(LOCAL_POLICY) as client:
            await self._sign_in(client)
            await self._require_mitigation(client)
            return (await self._call(client, "GET", "app/version")).text.strip()[:40]

    async def _require_mitigation(self, client: httpx.AsyncClient) -> None:
        """Raise Problem if qBittorrent follows a redirect of a tracker or web seed to a private address.

        Versions before 4.3.5 do not have the option and do not report it.
        """
        response = await self._call(client, "GET", "app/preferences")
        try:
            preferences = json.loads(response.content) if response.is_success else {}
        except (ValueError, RecursionError):
            preferences = {}
        if isinstance(preferences, dict) and preferences.get("ssrf_mitigation") is False:
            raise Problem('qBittorrent must have its advanced option "Server-side request forgery mitigation" on')

    async def add(self, url: str, folder: str, key: str) -> str:
        url = urls.normalize_url(url, self.name)
        tag = f"mangrove-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
        async with make_client(LOCAL_POLICY) as client:
            torrent = await self._find_torrent(client, tag)
            if torrent and torrent["state"] not in _ERROR_STATES:
                return tag
            if torrent:
                await self._delete(client, tag)
            await self._add(client, url, folder, tag)
            end = time.monotonic() + ADD_TIMEOUT
            while time.monotonic() < end:
                if await self._find_torrent(client, tag):
                    return tag
                await asyncio.sleep(0.05)
        raise Problem("qBittorrent did not take the torrent")

    async def get_status(self, token: str) -> DownloadStatus:
        async with make_client(LOCAL_POLICY) as client:
            torrent = await self._find_torrent(client, token)
        if torrent is None:
            return DownloadStatus(token, error="qBittorrent does not know this download any more")
        state = str(torrent["state"])
        total = max(int(torrent.get("size") or 0), 0)
        left = max(int(torrent.get("amount_left") or 0), 0)
        done = state in _COMPLETE_STATES and total > 0 and left == 0
        return DownloadStatus(
            token,
            done=done,
            downloaded=max(total - left, 0),
            total=total,
            text=f"[qBittorrent]: [qBittorrent] {state}",
            error=_ERROR_STATES.get(state, ""),
            seeding=done and self._is_seeding(torrent),
            seeds_forever=done and self._seedtime < 0,
        )

    def _is_seeding(self, torrent: dict[str, Any]) -> bool:
        """True if the seeding time is not over."""
        seconds = int(torrent.get("seeding_time") or 0)
        return self._seedtime > 0 and torrent["state"] not in _STOPPED_STATES and seconds < self._seedtime * 60

    async def remove(self, token: str) -> None:
        async with make_client(LOCAL_POLICY) as client:
            await self._delete(client, token)

    async def remove_completed(self, token: str) -> None:
        if self._seedtime >= 0:
            await self.remove(token)

    async def _add(self, client: httpx.AsyncClient, url: str, folder: str, tag: str) -> None:
        form = {
            "savepath": folder, "tags": tag, "autoTMM": "false", "useDownloadPath": "false", "paused": "false",
            "stopped": "false", "seedingTimeLimit": str(max(self._seedtime, -1)),
        }  # fmt: skip
        if url.startswith("magnet:"):
            await urls.check_url_hosts(url, self._policy)
            response = await self._call(client, "POST", "torrents/add", data=form | {"urls": url})
        else:
            torrent = await torrents.fetch_torrent(url, self._policy, self.name)
            files = {"torrents": ("a.torrent", torrent, "application/x-bittorrent")}
            response = await self._call(client, "POST", "torrents/add", data=form, files=files)
        if not response.is_success or response.text.startswith("Fails"):
            raise Problem("qBittorrent does not take this torrent: it is broken, or there already")

    async def _find_torrent(self, client: httpx.AsyncClient, tag: str) -> dict[str, Any] | None:
        """Return the torrent of a tag as qBittorrent describes it; None if there is none."""
        response = await self._call(client, "GET", "torrents/info", params={"tag": tag})
        try:
            rows = json.loads(response.content)
            # a version that does not know the filter returns all
            return next((row for row in rows if tag in row["tags"].split(", ") and row["state"]), None)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise Problem("no answer of qBittorrent") from None

    async def _delete(self, client: httpx.AsyncClient, tag: str) -> None:
        torrent = await self._find_torrent(client, tag)
        if torrent is not None:
            form = {"hashes": str(torrent["hash"]), "deleteFiles": "false"}
            await self._call(client, "POST", "torrents/delete", data=form)
        await self._call(client, "POST", "torrents/deleteTags", data={"tags": tag})

    async def _call(self, client: httpx.AsyncClient, method: str, path: str, **options: Any) -> httpx.Response:
        """Return the response to an authenticated call. Sign in if there is no session or it has ended."""
        base = _get_base_url(self._url)
        for renew in (False, True):
            cookies = None if renew else SESSIONS.open().get(self._url)
            if cookies is None:
                cookies = await self._sign_in(client)
            client.cookies = httpx.Cookies(cookies)
            response = await _request(client, method, f"{base}/api/v2/{path}", headers={"referer": base}, **options)
            if response.status_code not in (401, 403):
                return response
        raise Problem("qBittorrent refuses the call")

    async def _sign_in(self, client: httpx.AsyncClient) -> dict[str, str]:
        base = _get_base_url(self._url)
        parts = urlsplit(self._url)
        client.cookies.clear()
        form = {"username": unquote(parts.username or ""), "password": unquote(parts.password or "")}
        response = await _request(client, "POST", f"{base}/api/v2/auth/login", data=form, headers={"referer": base})
        if response.status_code != 204 and not (response.status_code == 200 and response.text.startswith("Ok")):
            raise Problem(f"failed to login into qBittorrent webui with url: {base}")
        cookies = dict(client.cookies)
        SESSIONS.open().put(self._url, cookies)
        return cookies


async def _request(client: httpx.AsyncClient, method: str, url: str, **options: Any) -> httpx.Response:
    try:
        return await request(client, method, url, **options)
    except Unreachable as error:
        raise Unreachable(f"qBittorrent does not answer: {error.message}") from None


def _get_base_url(url: str) -> str:
    """Return the URL of the Web UI without user and password."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise Problem("unauthorized qbittorrent url") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Problem("unauthorized qbittorrent url")
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl().rstrip("/")
