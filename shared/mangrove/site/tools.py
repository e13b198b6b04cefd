"""The download tools an administrator names: whether they answer (behaviour 7.3)."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx

from mangrove.problems import Problem

SECONDS = 5.0


def aria2_version(uri: str, secret: str) -> str:
    """The version of the aria2 that listens at `uri` (JSON-RPC over HTTP); Problem when none does."""
    call = {"jsonrpc": "2.0", "id": "mangrove", "method": "aria2.getVersion", "params": [f"token:{secret}"]}
    try:
        answer = httpx.post(_http(uri), json=call, timeout=SECONDS).json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise Problem(f"failed get aria2 version: {_reason(error)}") from None
    if not isinstance(answer, dict) or "result" not in answer:
        refusal = answer.get("error", {}) if isinstance(answer, dict) else {}
        raise Problem(f"failed get aria2 version: {str(refusal.get('message', 'no answer of aria2'))[:200]}")
    return str(answer["result"].get("version", ""))[:40]


def qbittorrent_login(url: str) -> None:
    """Sign in with the user and password in `url`; Problem when that fails."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise Problem("unauthorized qbittorrent url") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Problem("unauthorized qbittorrent url")
    place = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")
    form = {"username": parts.username or "", "password": parts.password or ""}
    try:
        answer = httpx.post(f"{place}/api/v2/auth/login", data=form, headers={"referer": place}, timeout=SECONDS)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Problem(f"qBittorrent does not answer: {_reason(error)}") from None
    if answer.status_code != 204 and not (answer.status_code == 200 and answer.text.startswith("Ok")):
        raise Problem(f"failed to login into qBittorrent webui with url: {place}")


def _http(uri: str) -> str:
    """aria2 answers websocket addresses over HTTP too."""
    scheme, _, rest = uri.partition("://")
    return f"{ {'ws': 'http', 'wss': 'https'}.get(scheme, scheme) }://{rest}"


def _reason(error: Exception) -> str:
    return str(error)[:200] or type(error).__name__
