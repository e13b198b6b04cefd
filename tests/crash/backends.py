"""The storages of the crash suite, seen from behind: what really stands there, whatever the service says."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests import servers

PLACEHOLDER = ".mangrove"
PART = ".mangrove-"

Model = dict[str, "Fact | None"]  # path below the top entry ("" for itself) to the file, None for a folder


@dataclass(frozen=True, slots=True)
class Fact:
    """The required facts of a file."""

    size: int
    digest: str


def fact(content: bytes) -> Fact:
    return Fact(len(content), hashlib.sha256(content).hexdigest())


class Disk:
    """A folder that a Local storage serves, seen from behind."""

    def __init__(self, mount: str, root: Path) -> None:
        self.mount = mount
        self.root = root
        self._known: dict[tuple[int, int, int], Fact] = {}

    def put(self, path: str, content: bytes | None) -> None:
        place = self.root / path
        if content is None:
            place.mkdir(parents=True, exist_ok=True)
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)

    def _fact(self, path: str) -> Fact:
        """Return the facts of a file. It is read again only if its inode has changed, which no program can reset."""
        status = os.stat(path)
        key = (status.st_ino, status.st_ctime_ns, status.st_size)
        if key not in self._known:
            self._known[key] = fact(Path(path).read_bytes())
        return self._known[key]

    def tree(self, path: str) -> Model:
        """All that stands at `path` and below, parts of unfinished files left out."""
        top = self.root / path
        if not top.is_dir():
            return {"": self._fact(str(top))} if top.exists() else {}
        model: Model = {"": None}
        for folder, folders, names in os.walk(top):
            below = Path(folder).relative_to(top)
            model |= {str(below / name): None for name in folders}
            for name in names:
                if not name.startswith(PART):
                    model[str(below / name)] = self._fact(f"{folder}/{name}")
        return model

    def orphans(self) -> list[tuple[str, int]]:
        """Parts of unfinished files, with their sizes."""
        files = []
        for folder, _, names in os.walk(self.root):
            for name in names:
                if name.startswith(PART):
                    with suppress(FileNotFoundError):  # dropped while we looked
                        files.append((f"{folder}/{name}", os.stat(f"{folder}/{name}").st_size))
        return files

    def clear(self) -> None:
        for entry in self.root.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def make_memory_folder() -> Path | None:
    """A folder on a file system in memory, which is another one than any disk's; None where there is none."""
    shared = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="mangrove-", dir=shared)) if os.path.ismount(shared) else None


class Bucket:
    """A bucket that an S3 storage serves, seen from behind."""

    def __init__(self, mount: str, endpoint: str) -> None:
        self.mount = mount
        self.name = servers.make_bucket(endpoint)
        self._client = servers.make_client("s3", endpoint)
        self._known: dict[tuple[str, str], Fact] = {}

    def put(self, path: str, content: bytes | None) -> None:
        key = f"{path}/{PLACEHOLDER}" if content is None else path
        self._client.put_object(Bucket=self.name, Key=key, Body=content or b"")

    def _keys(self, prefix: str = "") -> dict[str, str]:
        """Keys to their tags, which the server computes of the bytes."""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix)
        return {item["Key"]: item["ETag"] for page in pages for item in page.get("Contents", [])}

    def names(self, path: str) -> list[str]:
        """The keys of the files below a folder."""
        return [key for key in self._keys(f"{path}/") if not key.endswith(f"/{PLACEHOLDER}")]

    def _fact(self, key: str, tag: str) -> Fact:
        if (key, tag) not in self._known:
            self._known[key, tag] = fact(self._client.get_object(Bucket=self.name, Key=key)["Body"].read())
        return self._known[key, tag]

    def tree(self, path: str) -> Model:
        model: Model = {}
        for key, tag in self._keys(path).items():
            if key == path:
                model[""] = self._fact(key, tag)
            elif key.startswith(f"{path}/"):
                below = key.removeprefix(f"{path}/")
                steps = below.split("/")
                model |= {"/".join(steps[:count]): None for count in range(len(steps))}
                if steps[-1] != PLACEHOLDER:
                    model[below] = self._fact(key, tag)
        return model

    def orphans(self) -> list[tuple[str, int]]:
        """Multipart uploads that were neither completed nor aborted, with the bytes they hold."""
        files = []
        for upload in self._client.list_multipart_uploads(Bucket=self.name).get("Uploads", []):
            if upload["Key"].startswith(PART):
                continue  # of a trial of what the server refuses: the next trial drops it
            with suppress(self._client.exceptions.NoSuchUpload):  # dropped while we looked
                parts = self._client.list_parts(Bucket=self.name, Key=upload["Key"], UploadId=upload["UploadId"])
                size = sum(part["Size"] for part in parts.get("Parts", []))
                files.append((f"{upload['Key']} ({upload['UploadId']})", size))
        return files

    def clear(self) -> None:
        for upload in self._client.list_multipart_uploads(Bucket=self.name).get("Uploads", []):
            self._client.abort_multipart_upload(Bucket=self.name, Key=upload["Key"], UploadId=upload["UploadId"])
        keys = list(self._keys())
        for start in range(0, len(keys), 1000):
            batch = [{"Key": key} for key in keys[start : start + 1000]]
            self._client.delete_objects(Bucket=self.name, Delete={"Objects": batch})


Side = Disk | Bucket
