"""A client of WebDAV: it sends requests in headers, and reads multistatus."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import httpx

from tests.contract.api.accounts import Person, stranger
from tests.support.service import Service

EVERYTHING = 0x3FF & ~3  # what files need, and the door's own two rights
D = "{DAV:}"
LOCK = (
    '<D:lockinfo xmlns:D="DAV:"><D:lockscope><D:{scope}/></D:lockscope><D:locktype><D:write/></D:locktype>'
    "<D:owner><D:href>me</D:href></D:owner></D:lockinfo>"
)


def make_basic(username: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


class Dav:
    """A user's client, at an address of its own. Paths are those of the tree."""

    def __init__(self, service: Service, person: Person | None = None, root: str = "/dav") -> None:
        headers = {"authorization": make_basic(person.name, person.password)} if person else {}
        self.http = stranger(service, **headers).http
        self.address = service.address
        self.root = root

    def send(self, method: str, path: str, content: Any = None, **headers: str) -> httpx.Response:
        """A request; keywords are headers, `_` for `-`."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.http.request(method, self.root + quote(path), content=content, headers=sent)

    def status(self, method: str, path: str, content: Any = None, **headers: str) -> int:
        return self.send(method, path, content, **headers).status_code

    def carry(self, method: str, path: str, target: str, **headers: str) -> int:
        """COPY or MOVE."""
        return self.status(method, path, destination=f"{self.address}{self.root}{quote(target)}", **headers)

    def find(self, path: str, *names: str, depth: str = "0") -> dict[str, dict[str, str]]:
        """href → the text of each property that is there, elements in it by their names."""
        requested = "".join(f'<p xmlns="{space}" />'.replace("<p", f"<{name}") for space, name in map(split, names))
        body = f'<D:propfind xmlns:D="DAV:"><D:prop>{requested}</D:prop></D:propfind>' if names else None
        answer = self.send("PROPFIND", path, body, depth=depth)
        assert answer.status_code == 207, (answer.status_code, answer.text)
        return read_multistatus(answer.content)

    def lock(self, path: str, scope: str = "exclusive", **headers: str) -> str:
        """The token of a new lock."""
        answer = self.send("LOCK", path, LOCK.format(scope=scope), **headers)
        assert answer.status_code in (200, 201), (answer.status_code, answer.text)
        return answer.headers["lock-token"].strip("<>")


def split(name: str) -> tuple[str, str]:
    space, _, local = name.rpartition("}")
    return space.removeprefix("{") or "DAV:", local


def read_multistatus(content: bytes) -> dict[str, dict[str, str]]:
    properties_by_path: dict[str, dict[str, str]] = {}
    for response in ElementTree.fromstring(content).iterfind(f"{D}response"):
        properties = properties_by_path.setdefault(response.findtext(f"{D}href") or "", {})
        for part in response.iterfind(f"{D}propstat"):
            if " 200 " in (part.findtext(f"{D}status") or ""):
                for element in part.iterfind(f"{D}prop/*"):
                    inner = "".join(child.tag.removeprefix(D) for child in element)
                    properties[element.tag.removeprefix(D)] = (element.text or "") + inner
    return properties_by_path
