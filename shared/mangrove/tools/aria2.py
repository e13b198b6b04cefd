"""aria2, spoken to by JSON-RPC over HTTP."""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import Any

from mangrove.net import guard
from mangrove.net.guard import Allowed
from mangrove.problems import Problem, Unreachable
from mangrove.tools import urls
from mangrove.tools.base import Status, Tool
from mangrove.tools.calls import ask

OPTIONS = {
    "allow-overwrite": "true",  # a second try writes over what the first one left
    "auto-file-renaming": "false",
    "check-certificate": "true",
    "continue": "true",
    "follow-torrent": "mem",
    "follow-metalink": "false",  # it may name any host
    "no-netrc": "true",  # no password of the machine's goes out
    "pause-metadata": "false",
    "seed-time": "0",  # minutes
    "bt-stop-timeout": "86400",  # seconds without a byte, then a torrent is given up
}
KEYS = ["gid", "status", "totalLength", "completedLength", "errorCode", "followedBy", "following"]
STOPPING = 100  # looks, 50 ms apart, until a download that was told to stop has stopped
# aria2's own exit codes; its sentences would tell paths of this machine
FAILURES = {
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


class Refusal(Problem):
    """aria2 answers with an error of its own."""


class Aria2(Tool):
    name = "aria2"

    def __init__(self, uri: str, secret: str, allowed: Allowed) -> None:
        """`uri` is where aria2 listens; `allowed` is for the addresses that it is to download from."""
        self._uri = _http(uri)
        self._secret = secret
        self._allowed = allowed

    async def version(self) -> str:
        try:
            return str((await self._call("getVersion"))["version"])[:40]
        except Unreachable as error:
            raise Unreachable(f"failed get aria2 version: {error.message}") from None
        except Problem as error:
            raise error.with_prefix("failed get aria2 version") from None
        except (TypeError, KeyError):
            raise Problem("failed get aria2 version: no answer of aria2") from None

    async def begin(self, url: str, folder: str, key: str) -> str:
        url = urls.checked(url, self.name)
        await urls.reachable(url, self._allowed)
        gid = hashlib.sha256(key.encode()).hexdigest()[:16]
        known = await self._known(gid)
        if known and known["status"] not in ("error", "removed"):
            return gid
        if known:
            await self.stop(gid)
        await self._call("addUri", [url], OPTIONS | {"gid": gid, "dir": folder})
        return gid

    async def look(self, token: str) -> Status:
        known = await self._known(token)
        if known is None:
            return Status(token, failed="aria2 does not know this download any more")
        followers = known.get("followedBy") or []
        if known["status"] == "complete" and followers:
            return await self.look(str(followers[0]))
        state = str(known["status"])
        failed = ""
        if state == "error":
            code = int(known.get("errorCode") or 1)
            failed = FAILURES.get(code, f"aria2 failed with its error {code}")
        elif state == "removed":
            failed = "the download was removed from aria2"
        return Status(
            token,
            done=state == "complete",
            have=int(known.get("completedLength") or 0),
            total=int(known.get("totalLength") or 0),
            text=f"[aria2]: aria2: {state}",
            failed=failed,
        )

    async def stop(self, token: str) -> None:
        for _ in range(STOPPING):
            known = await self._known(token)
            if known is None:
                return
            if known["status"] in ("active", "waiting", "paused"):
                await self._tried("forceRemove", token)
                await asyncio.sleep(0.05)
                continue
            for follower in known.get("followedBy") or []:
                await self.stop(str(follower))
            await self._tried("removeDownloadResult", token)
            if known.get("following"):
                await self._tried("removeDownloadResult", str(known["following"]))
            return
        raise Problem("aria2 does not stop the download")

    async def finish(self, token: str) -> None:
        await self.stop(token)

    async def _known(self, gid: str) -> dict[str, Any] | None:
        """What aria2 says of a download; None when it has none of that id."""
        try:
            found = await self._call("tellStatus", gid, KEYS)
        except Refusal as error:
            if "not found" in error.message:
                return None
            raise
        if not isinstance(found, dict) or "status" not in found:
            raise Problem("no answer of aria2")
        return found

    async def _tried(self, method: str, *parameters: Any) -> None:
        try:
            await self._call(method, *parameters)
        except Refusal:
            pass  # it is in another state by now, or gone; the next look tells

    async def _call(self, method: str, *parameters: Any) -> Any:
        """The result of `aria2.<method>`; Refusal with aria2's own message, Problem for an answer of something else."""
        call = {"jsonrpc": "2.0", "id": "mangrove", "method": f"aria2.{method}"}
        body = json.dumps(call | {"params": [f"token:{self._secret}", *parameters]})
        headers = {"content-type": "application/json"}
        async with guard.client(guard.TOOLS) as client:
            answer = await ask(client, "POST", self._uri, content=body, headers=headers)
        try:
            found = json.loads(answer.content)
        except (ValueError, RecursionError):
            raise Problem("no answer of aria2") from None
        if not isinstance(found, dict) or "result" not in found:
            refusal = found.get("error") if isinstance(found, dict) else None
            if isinstance(refusal, dict) and "message" in refusal:
                raise Refusal(str(refusal["message"])[:200])
            raise Problem("no answer of aria2")
        return found["result"]


def _http(uri: str) -> str:
    """aria2 answers websocket addresses over HTTP too."""
    scheme, _, rest = uri.strip().partition("://")
    return f"{ {'ws': 'http', 'wss': 'https'}.get(scheme, scheme) }://{rest}"
