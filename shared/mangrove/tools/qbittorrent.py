"""qBittorrent, spoken to by its Web API, the one of version 4.1 and later.

Its library for Python is not used: it sends the password on to wherever it is redirected, reads the environment,
and blocks.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx

from mangrove.net import guard
from mangrove.net.guard import Allowed
from mangrove.problems import Problem, Unreachable
from mangrove.tools import http, urls
from mangrove.tools.base import Status, Tool
from mangrove.tools.calls import ask

LARGEST_TORRENT = 16 << 20  # bytes of a torrent file
APPEARING = 10.0  # seconds until a torrent that was added shows
_WHOLE = frozenset({"uploading", "pausedUP", "stoppedUP", "queuedUP", "stalledUP", "forcedUP"})
_STOPPED = frozenset({"pausedUP", "stoppedUP"})
_BROKEN = {"error": "qBittorrent reports an error", "missingFiles": "files of the torrent are missing"}
_cookies: dict[str, dict[str, str]] = {}  # by address with user and password: the session of this process


class QBittorrent(Tool):
    name = "qBittorrent"

    def __init__(self, url: str, seedtime: int, allowed: Allowed) -> None:
        """`url` of the Web UI with user and password; `seedtime` in minutes, negative for ever.

        `allowed` is for the addresses of torrent files.
        """
        self._url = url
        self._seedtime = seedtime
        self._allowed = allowed

    async def version(self) -> str:
        async with guard.client(guard.TOOLS) as client:
            await self._sign_in(client)
            return (await self._asked(client, "GET", "app/version")).text.strip()[:40]

    async def begin(self, url: str, folder: str, key: str) -> str:
        url = urls.checked(url, self.name)
        tag = f"mangrove-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
        async with guard.client(guard.TOOLS) as client:
            found = await self._known(client, tag)
            if found and found["state"] not in _BROKEN:
                return tag
            if found:
                await self._forget(client, tag)
            await self._add(client, url, folder, tag)
            end = time.monotonic() + APPEARING
            while time.monotonic() < end:
                if await self._known(client, tag):
                    return tag
                await asyncio.sleep(0.05)
        raise Problem("qBittorrent did not take the torrent")

    async def look(self, token: str) -> Status:
        async with guard.client(guard.TOOLS) as client:
            known = await self._known(client, token)
        if known is None:
            return Status(token, failed="qBittorrent does not know this download any more")
        state = str(known["state"])
        total = max(int(known.get("size") or 0), 0)
        left = max(int(known.get("amount_left") or 0), 0)
        done = state in _WHOLE and total > 0 and left == 0
        return Status(
            token,
            done=done,
            have=max(total - left, 0),
            total=total,
            text=f"[qBittorrent]: [qBittorrent] {state}",
            failed=_BROKEN.get(state, ""),
            seeding=done and self._gives(known),
            stays=done and self._seedtime < 0,
        )

    def _gives(self, known: dict[str, Any]) -> bool:
        """Whether the time of giving to others is not over yet."""
        given = int(known.get("seeding_time") or 0)
        return self._seedtime > 0 and known["state"] not in _STOPPED and given < self._seedtime * 60

    async def stop(self, token: str) -> None:
        async with guard.client(guard.TOOLS) as client:
            await self._forget(client, token)

    async def finish(self, token: str) -> None:
        if self._seedtime >= 0:
            await self.stop(token)

    async def _add(self, client: httpx.AsyncClient, url: str, folder: str, tag: str) -> None:
        form = {
            "savepath": folder, "tags": tag, "autoTMM": "false", "useDownloadPath": "false", "paused": "false",
            "stopped": "false", "seedingTimeLimit": str(max(self._seedtime, -1)),
        }  # fmt: skip
        if url.startswith("magnet:"):
            await urls.reachable(url, self._allowed)
            answer = await self._asked(client, "POST", "torrents/add", data=form | {"urls": url})
        else:
            files = {"torrents": ("a.torrent", await self._torrent(url), "application/x-bittorrent")}
            answer = await self._asked(client, "POST", "torrents/add", data=form, files=files)
        if not answer.is_success or answer.text.startswith("Fails"):
            raise Problem("qBittorrent does not take this torrent: it is broken, or there already")

    async def _torrent(self, url: str) -> bytes:
        """A torrent file, fetched by us, so that the guard sees all its redirects."""
        read = bytearray()
        async with http.fetch(url, self._allowed) as answer:
            async for block in answer.blocks():
                read += block
                if len(read) > LARGEST_TORRENT:
                    break
        if not read.startswith(b"d") or len(read) > LARGEST_TORRENT:
            raise Problem("qBittorrent takes torrents only: there is none at this address")
        return bytes(read)

    async def _known(self, client: httpx.AsyncClient, tag: str) -> dict[str, Any] | None:
        """What qBittorrent says of a download; None when it has none of that tag."""
        answer = await self._asked(client, "GET", "torrents/info", params={"tag": tag})
        try:
            rows = json.loads(answer.content)
            # a version that does not know the filter gives all
            return next((row for row in rows if tag in row["tags"].split(", ") and row["state"]), None)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise Problem("no answer of qBittorrent") from None

    async def _forget(self, client: httpx.AsyncClient, tag: str) -> None:
        known = await self._known(client, tag)
        if known is not None:
            form = {"hashes": str(known["hash"]), "deleteFiles": "false"}
            await self._asked(client, "POST", "torrents/delete", data=form)
        await self._asked(client, "POST", "torrents/deleteTags", data={"tags": tag})

    async def _asked(self, client: httpx.AsyncClient, method: str, path: str, **how: Any) -> httpx.Response:
        """The answer to a signed-in call; signs in when the session is not there or over."""
        place = _place(self._url)
        for fresh in (False, True):
            if fresh or self._url not in _cookies:
                await self._sign_in(client)
            client.cookies = httpx.Cookies(_cookies[self._url])
            answer = await self._told(client, method, f"{place}/api/v2/{path}", headers={"referer": place}, **how)
            if answer.status_code not in (401, 403):
                return answer
        raise Problem("qBittorrent refuses the call")

    async def _sign_in(self, client: httpx.AsyncClient) -> None:
        place = _place(self._url)
        parts = urlsplit(self._url)
        client.cookies.clear()
        form = {"username": unquote(parts.username or ""), "password": unquote(parts.password or "")}
        answer = await self._told(client, "POST", f"{place}/api/v2/auth/login", data=form, headers={"referer": place})
        if answer.status_code != 204 and not (answer.status_code == 200 and answer.text.startswith("Ok")):
            raise Problem(f"failed to login into qBittorrent webui with url: {place}")
        _cookies[self._url] = dict(client.cookies)

    @staticmethod
    async def _told(client: httpx.AsyncClient, method: str, url: str, **how: Any) -> httpx.Response:
        try:
            return await ask(client, method, url, **how)
        except Unreachable as error:
            raise Unreachable(f"qBittorrent does not answer: {error.message}") from None


def _place(url: str) -> str:
    """Where the Web UI is, without user and password."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise Problem("unauthorized qbittorrent url") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Problem("unauthorized qbittorrent url")
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl().rstrip("/")
