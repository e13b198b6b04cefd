"""A request for each route that creates tasks, sent twice with one key: the second answer is the first one."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

import orjson

FORM_TYPE = {"content-type": "multipart/form-data; boundary=edge"}
FORM = b'--edge\r\ncontent-disposition: form-data; name="file"; filename="f"\r\n\r\nbytes\r\n--edge--\r\n'


@dataclass(frozen=True, slots=True)
class Request:
    """A request; `body` is encoded as JSON unless it is bytes."""

    method: str
    path: str
    body: Any = b""
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else orjson.dumps(self.body)


class Answer(NamedTuple):
    body: bytes
    is_replayed: bool


class Deployment(Protocol):
    """The service as a user meets it, in the cloud or standalone, with a search index that nothing is changing."""

    folder: str
    """A folder of the tree that nobody else uses."""
    url: str
    """The address of a file that can be downloaded."""

    def send(self, request: Request) -> Answer: ...

    def finish_tasks(self) -> None:
        """Return when no run of the index is unfinished."""
        ...


def post(deployment: Deployment, route: str, /, **body: Any) -> Any:
    """Send a request that must succeed, and return the data of its answer."""
    return read(deployment.send(Request("POST", route, body)))


def read(answer: Answer) -> Any:
    envelope = orjson.loads(answer.body)
    assert envelope["code"] == 200, envelope
    return envelope["data"]


def put(deployment: Deployment, path: str, content: bytes = b"bytes") -> None:
    read(deployment.send(Request("PUT", "/api/fs/put", content, name_file(path, content))))


def name_file(path: str, content: bytes) -> dict[str, str]:
    return {"file-path": quote(path), "content-length": str(len(content))}


def prepare(deployment: Deployment) -> dict[str, Any]:
    """Store what the requests change, and return the fields that several of them have."""
    root, archive = deployment.folder, io.BytesIO()
    for name in ("r", "b", "x", "moved", "copied", "z", "removed", "trashed", "from/deep/f"):
        put(deployment, f"{root}/{name}")
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("member", "bytes")
    put(deployment, f"{root}/a.zip", archive.getvalue())
    for folder in ("to", "flat", "bare/empty"):
        post(deployment, "/api/fs/mkdir", path=f"{root}/{folder}")
    post(deployment, "/api/fs/remove", dir=root, names=["trashed"])
    return {"src_dir": root, "dst_dir": f"{root}/to"}


def begin_upload(deployment: Deployment, path: str) -> str:
    """Send all chunks of an upload, and return its id."""
    begin = Request("POST", "/api/fs/multipart/init", b"", {"file-path": quote(path), "x-file-size": "5"})
    id: str = read(deployment.send(begin))["upload_id"]
    headers = {"x-upload-id": id, "x-chunk-index": "0", "content-length": "5"}
    read(deployment.send(Request("PUT", "/api/fs/multipart/chunk", b"bytes", headers)))
    return id


Make = Callable[[Deployment, dict[str, Any]], tuple[Any, dict[str, str]]]


def with_fields(**fields: Any) -> Make:
    """Return what makes a body of these fields; `{}` in a text stands for the folder."""

    def make(deployment: Deployment, common: dict[str, Any]) -> tuple[Any, dict[str, str]]:
        texts = {key: value.replace("{}", deployment.folder) for key, value in fields.items() if isinstance(value, str)}
        return fields | texts, {}

    return make


def with_ends(**fields: Any) -> Make:
    return lambda _, common: (common | fields, {})


REQUESTS: dict[tuple[str, str], Make] = {
    ("POST", "/api/fs/rename"): with_fields(path="{}/r", name="r2"),
    ("POST", "/api/fs/batch_rename"): with_fields(
        src_dir="{}", rename_objects=[{"src_name": "b", "new_name": "b2"}]
    ),
    ("POST", "/api/fs/regex_rename"): with_fields(src_dir="{}", src_name_regex="^x$", new_name_regex="x2"),
    ("POST", "/api/fs/move"): with_ends(names=["moved"]),
    ("POST", "/api/fs/copy"): with_ends(names=["copied"]),
    ("POST", "/api/fs/recursive_move"): with_fields(src_dir="{}/from", dst_dir="{}/flat", conflict_policy="cancel"),
    ("POST", "/api/fs/add_offline_download"): lambda deployment, _: (
        {"urls": [deployment.url], "path": deployment.folder, "tool": "SimpleHttp"}, {},
    ),
    ("POST", "/api/fs/archive/decompress"): with_ends(name=["a.zip"]),
    ("POST", "/api/fs/archive/compress"): with_ends(names=["z"], name="packed.zip"),
    ("POST", "/api/fs/zip"): with_fields(dir="{}", names=["z"]),
    ("POST", "/api/fs/remove"): with_fields(dir="{}", names=["removed"]),
    ("POST", "/api/fs/remove_empty_directory"): with_fields(src_dir="{}/bare"),
    ("POST", "/api/fs/trash/restore"): with_fields(dir="{}", names=["trashed"]),
    ("PUT", "/api/fs/put"): lambda deployment, _: (
        b"bytes", name_file(f"{deployment.folder}/task", b"bytes") | {"as-task": "true"},
    ),
    ("PUT", "/api/fs/form"): lambda deployment, _: (
        FORM, name_file(f"{deployment.folder}/form", FORM) | FORM_TYPE | {"as-task": "true"},
    ),
    ("POST", "/api/fs/multipart/complete"): lambda deployment, _: (
        b"", {"x-upload-id": begin_upload(deployment, f"{deployment.folder}/whole")},
    ),
    ("POST", "/api/admin/index/build"): with_fields(),
    ("POST", "/api/admin/index/update"): with_fields(paths=["/files"], max_depth=1),
}  # fmt: skip
"""The function that makes the body and the headers of a request, by route."""


def run(deployment: Deployment, header: str) -> None:
    """Send each request twice. A task that is named in both answers is one task."""
    common = prepare(deployment)
    for number, ((method, path), make) in enumerate(REQUESTS.items()):
        deployment.finish_tasks()
        body, headers = make(deployment, common)
        repeated = Request(method, path, body, {**headers, header: f"{deployment.folder} {number}"})
        first, second = deployment.send(repeated), deployment.send(repeated)
        read(first)
        assert not first.is_replayed, path
        assert second == Answer(first.body, True), path


def repeat(send: Callable[[str, dict[str, Any]], dict[str, Any]], sample: str, **body: Any) -> None:
    """Send a sample request to a function twice with one key: the second answer is the first one."""
    event = {"headers": {"idempotency-key": sample}, "body": orjson.dumps(body).decode()}
    first, second = (send(sample, dict(event)) for _ in range(2))
    assert first["statusCode"] == 200 and first["body"] == second["body"], (sample, first)
    assert "idempotency-replayed" in second["headers"]
