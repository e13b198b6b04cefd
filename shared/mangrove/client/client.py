"""The client: operations over HTTP, and the work with files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

import httpx

from mangrove.client import models
from mangrove.client.errors import ClientError, ConnectionFailed, TaskFailed
from mangrove.client.operations import TASK_STATES, Content, Operations

TIMEOUT_SECONDS = 60.0  # without a byte
MAX_REPEATS = 5  # of a request that is refused because of the load
MAX_REPEAT_SECONDS = 30.0
ROWS_PER_PAGE = 1000
FIRST_POLL_SECONDS, MAX_POLL_SECONDS = 0.1, 2.0
SUCCEEDED = "succeeded"
FINAL_STATES = frozenset({SUCCEEDED, "failed", "canceled"})
Notify = Callable[[int], object]
"""Called with the number of bytes that were transferred since the last call."""


class Client(Operations):
    """A client of the service at `address`, for example `https://files.example.org`.

    `token` is a session token or a token of the page `/@profile`; "" for the guest. `timeout` in seconds is for each
    read and write. Each operation raises ClientError if the service refuses it, and ConnectionFailed if the service
    does not answer. A client can be used in several threads. It is a context manager; `close` ends its connections.
    """

    def __init__(
        self,
        address: str,
        token: str = "",
        *,
        timeout: float = TIMEOUT_SECONDS,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        if urlsplit(address).scheme not in ("http", "https") or not urlsplit(address).hostname:
            raise ClientError(f"{address!r} is not an address such as https://files.example.org")
        self.address = address.rstrip("/")
        self._http = httpx.Client(timeout=timeout, transport=transport, follow_redirects=True)
        self.token = token

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def login(self, username: str, password: str, otp_code: str = "") -> None:
        """Sign in; the client uses the session from now on. `otp_code` is that of the second factor."""
        answer = self.auth_login(username=username, password=password, otp_code=otp_code)
        self.token = answer["token"]

    def _call(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, Any] | None = None,
        headers: dict[str, Any] | None = None,
        json: Any = None,
        content: Content | None = None,
    ) -> Any:
        """Send a request and return `data` of its answer. A request that is refused because of the load is repeated."""
        for repeats_left in reversed(range(MAX_REPEATS)):
            answer = self._request(method, path, _format_values(query), _format_values(headers), json, content)
            envelope = _read_envelope(answer)
            if envelope["code"] != 429 or not repeats_left or not isinstance(content, bytes | None):
                break
            time.sleep(min(_read_seconds(answer), MAX_REPEAT_SECONDS))
        if envelope["code"] != 200:
            raise ClientError(str(envelope["message"]), int(envelope["code"]), str(envelope.get("problem", "")))
        return envelope.get("data")

    def _request(
        self,
        method: str,
        path: str,
        query: dict[str, str],
        headers: dict[str, str],
        json: Any,
        content: Content | None,
    ) -> httpx.Response:
        address = self.address + quote(path)
        try:
            return self._http.request(
                method, address, params=query, headers=headers | self._authorize(), json=json, content=content
            )
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise _explain(self.address, error) from None

    def _authorize(self) -> dict[str, str]:
        return {"Authorization": self.token} if self.token else {}

    def info(self, path: str, password: str = "") -> models.SingleObject:
        """Return an entry, with the address of its bytes in `raw_url`."""
        return self.fs_get(path=path, password=password)

    def exists(self, path: str) -> bool:
        """True if there is an entry at the path."""
        try:
            self.info(path)
        except ClientError as error:
            if error.is_missing:
                return False
            raise
        return True

    def iter_folder(self, path: str, password: str = "", *, refresh: bool = False) -> Iterator[models.FileObject]:
        """Yield the entries of a folder. With `refresh`, the service reads the storage again."""
        page = count = 0
        while True:
            page += 1
            listing = self.fs_list(
                path=path, password=password, page=page, per_page=ROWS_PER_PAGE, refresh=refresh and page == 1
            )
            rows = listing["content"] or []
            for row in rows:
                _check_name(row["name"])
                yield row
            count += len(rows)
            if not rows or count >= listing["total"]:
                return

    def walk(self, path: str) -> Iterator[tuple[str, models.FileObject]]:
        """Yield all entries below a folder with their paths; each folder precedes its entries."""
        waiting = [path.rstrip("/")]
        while waiting:
            folder = waiting.pop()
            for entry in self.iter_folder(folder or "/"):
                entry_path = f"{folder}/{entry['name']}"
                yield entry_path, entry
                if entry["is_dir"]:
                    waiting.append(entry_path)

    @contextmanager
    def stream(self, path: str, start: int = 0, end: int | None = None, *, etag: str = "") -> Iterator[httpx.Response]:
        """Open the bytes of a file from `start` to before `end`. Read them with `iter_bytes` of the response.

        With `etag`, a file that has another one is sent from its beginning: `status_code` is then 200.
        """
        headers = {"Accept-Encoding": "identity"}
        if start or end is not None:
            headers["Range"] = f"bytes={start}-{'' if end is None else end - 1}"
        if etag:
            headers["If-Range"] = etag
        address = urljoin(f"{self.address}/", self.info(path)["raw_url"])
        try:
            with self._http.stream("GET", address, headers=headers) as response:
                if response.status_code not in (200, 206):
                    raise _read_failure(response)
                yield response
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise _explain(self.address, error) from None

    def read(self, path: str, start: int = 0, end: int | None = None) -> bytes:
        """Return the bytes of a file from `start` to before `end`."""
        if end is not None and end <= start:
            return b""
        with self.stream(path, start, end) as response:
            content = response.read()
            return content if response.status_code == 206 else content[start:end]

    def copy(self, source: str, names: Sequence[str], target: str, *, overwrite: bool = False) -> list[str]:
        """Copy entries of the folder `source` into the folder `target`. Return the ids of the tasks that do it."""
        done = self.fs_copy(src_dir=source, dst_dir=target, names=list(names), overwrite=overwrite)
        return _list_tasks(done)

    def move(self, source: str, names: Sequence[str], target: str, *, overwrite: bool = False) -> list[str]:
        """Move entries of the folder `source` into the folder `target`. Return the ids of the tasks that do it."""
        done = self.fs_move(src_dir=source, dst_dir=target, names=list(names), overwrite=overwrite)
        return _list_tasks(done)

    def wait(
        self, kind: str, task: str, *, timeout: float | None = None, notify: Callable[[float], object] = id
    ) -> None:
        """Wait for the end of a task; `notify` gets the percentage. Raise TaskFailed, also after `timeout` seconds."""
        row = self.wait_for_end(lambda: self.find_task(kind, task), timeout=timeout, notify=notify)
        if row["state"] != SUCCEEDED:
            raise TaskFailed(f"{row['name']}: {row['error'] or row['state']}")

    def wait_for_end(
        self,
        read: Callable[[], models.TaskRow],
        *,
        timeout: float | None = None,
        notify: Callable[[float], object] = id,
    ) -> models.TaskRow:
        """Call `read` until its task has ended, and return the task. Raise TaskFailed after `timeout` seconds."""
        delay, end = FIRST_POLL_SECONDS, None if timeout is None else time.monotonic() + timeout
        while True:
            row = name_state(read())
            notify(row["progress"])
            if row["state"] in FINAL_STATES:
                return row
            if end is not None and time.monotonic() >= end:
                raise TaskFailed(f"{row['name']}: not finished within {timeout:g} s")
            time.sleep(delay)
            delay = min(2 * delay, MAX_POLL_SECONDS)

    def find_task(self, kind: str, task: str) -> models.TaskRow:
        """Return a task by its id."""
        rows = self.task_info(kind, tid=task)
        return rows[0] if isinstance(rows, list) else rows


def name_state(task: models.TaskRow) -> models.TaskRow:
    """Return a task whose state is a word; the routes of administrators answer with its number."""
    state = task["state"]
    if isinstance(state, int) and state < len(TASK_STATES):
        task["state"] = TASK_STATES[state]
    return task


def _check_name(name: str) -> None:
    """Raise ClientError for a name that leads out of its folder, which an honest service does not answer with."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise ClientError(f"the service answers with the name {name!r}, which no file has")


def _list_tasks(done: models.Done | None) -> list[str]:
    return [] if done is None else [task["id"] for task in done.get("tasks") or ()]


def _format_values(values: Mapping[str, Any] | None) -> dict[str, str]:
    """Return query or header values as texts, without those that are None."""
    present = {name: value for name, value in (values or {}).items() if value is not None}
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in present.items()}


def _read_envelope(answer: httpx.Response) -> dict[str, Any]:
    try:
        envelope = answer.json()
    except ValueError:
        envelope = None
    if not isinstance(envelope, dict) or not {"code", "message"} <= set(envelope):
        raise ConnectionFailed(f"{answer.url.host} answers {answer.status_code}, and not as Mangrove does")
    return envelope


def _read_seconds(answer: httpx.Response) -> float:
    text = answer.headers.get("retry-after", "")
    return float(text) if text.isdigit() else 1.0


def _read_failure(response: httpx.Response) -> ClientError:
    """Return the failure of a request for bytes."""
    response.read()
    try:
        return ClientError(_read_envelope(response)["message"], response.status_code)
    except ConnectionFailed:
        return ClientError(response.text[:200].strip() or response.reason_phrase, response.status_code)


def _explain(address: str, error: Exception) -> ConnectionFailed:
    return ConnectionFailed(f"{address} does not answer: {error or type(error).__name__}")
