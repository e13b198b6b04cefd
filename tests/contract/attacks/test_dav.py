"""Attacks 1-8 by WebDAV: no path and no Destination of any verb leads out of the base path or past a rule."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from deployment.generate.api import import_functions
from mangrove.identity.rights import Right
from tests.contract.api.dav_client import LOCK, make_basic
from tests.contract.attacks.scene import EVERYTHING, PASSWORD, Scene, add_rule, scan
from tests.support.service import Client

DOOR = Right.WEBDAV_READ | Right.WEBDAV_MANAGE
PROPPATCH = '<D:propertyupdate xmlns:D="DAV:"><D:set><D:prop><x xmlns="urn:x">y</x></D:prop></D:set></D:propertyupdate>'
HeadersOf = Callable[[str], dict[str, str]]
VERBS: dict[str, tuple[str, HeadersOf, bytes | None]] = {
    "PROPFIND": ("PROPFIND", lambda _: {"depth": "1"}, None),
    "PROPPATCH": ("PROPPATCH", lambda _: {}, PROPPATCH.encode()),
    "GET": ("GET", lambda _: {}, None),
    "HEAD": ("HEAD", lambda _: {}, None),
    "PUT": ("PUT", lambda _: {}, b"overwritten"),
    "DELETE": ("DELETE", lambda _: {}, None),
    "MKCOL": ("MKCOL", lambda _: {}, None),
    "COPY": ("COPY", lambda root: {"destination": f"{root}/stolen"}, None),
    "MOVE": ("MOVE", lambda root: {"destination": f"{root}/stolen"}, None),
    "LOCK": ("LOCK", lambda _: {}, LOCK.format(scope="exclusive").encode()),
    "UNLOCK": ("UNLOCK", lambda _: {"lock-token": "<opaquelocktoken:none>"}, None),
}
TRANSFER_VERBS = ("COPY", "MOVE")
ALL = [*VERBS, *(f"{verb} to" for verb in TRANSFER_VERBS)]
SAMPLE_VERBS = ("PROPFIND", "GET", "PUT", "DELETE", "MOVE", "MOVE to")


class Attacker:
    """A user with every right for files, who sends paths unchanged."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.name = f"{scene.id}-dav"
        scene.make_user("dav", scene.base, int(EVERYTHING | DOOR))
        self.root = f"{scene.service.address}/dav"
        self.connection = http.client.HTTPConnection(urlsplit(scene.service.address).netloc, timeout=60)

    def send(self, verb: str, path: str) -> tuple[int, bytes]:
        """Return the answer to a method at an address, or with that Destination."""
        method, headers, body = VERBS[verb.removesuffix(" to")]
        sent = headers(self.root)
        if verb.endswith(" to"):
            sent, path = {"destination": self.root + path, "overwrite": "T"}, "/f.txt"
        sent["authorization"] = make_basic(self.name, PASSWORD)
        self.connection.request(method, "/dav" + path, body, sent)
        answer = self.connection.getresponse()
        content = answer.read() + str(answer.headers).encode()
        self.connection.close()  # the service closes an idle one; the next request opens another
        return answer.status, content


@pytest.fixture(scope="module")
def attacker(scene: Scene) -> Iterator[Attacker]:
    attacker = Attacker(scene)
    yield attacker
    attacker.connection.close()


def list_addresses(texts: Sequence[str]) -> Iterator[str]:
    """The texts as paths of addresses: quoted as a client does, and as they are where a request line can have them."""
    for text in texts:
        for start in ("/", "/sub/"):
            yield start + quote(text.encode("utf-8", "surrogateescape"))
            if text.isascii() and text.isprintable() and " " not in text:
                yield start + text


def attack(attacker: Attacker, verb: str, addresses: Sequence[str]) -> None:
    """Every address with a verb; what is outside stays, and nothing of it is told."""
    scene = attacker.scene
    before = scene.scan_outside()
    for address in addresses:
        if not (scene.disk / "f.txt").exists():
            scene.reset()
        status, answer = attacker.send(verb, address)
        assert status < 500 or status in (501, 507), (address, status, answer)
        assert b"internal error" not in answer and b"Traceback" not in answer, (address, answer)
        assert scene.secret.encode() not in answer, (address, answer)
    assert scene.scan_outside() == before


def test_every_verb_of_webdav_is_attacked() -> None:
    import_functions()
    from functions.api.dav.app import METHODS

    assert {*METHODS.split(", ")} == {*VERBS, "OPTIONS"}, "OPTIONS asks nobody who they are, and says nothing of a path"


@pytest.mark.parametrize("verb", SAMPLE_VERBS)
def test_a_few_paths_do_not_lead_out(attacker: Attacker, verb: str) -> None:
    attacker.scene.reset()
    ways = ["/../ab/notes.txt", "/%2e%2e/ab/notes.txt", "/..%2Fab%2Fnotes.txt", "/..%5cab", "/sub/../../ab"]
    attack(attacker, verb, ways)


@pytest.mark.long
@pytest.mark.parametrize("verb", ALL)
def test_no_path_of_any_verb_leads_out(attacker: Attacker, verb: str) -> None:
    attacker.scene.reset()
    attack(attacker, verb, list(dict.fromkeys(list_addresses(attacker.scene.list_texts()))))


DESTINATIONS = (
    "http://elsewhere.example/dav/f", "//elsewhere.example/dav/f", "/d/f", "/api/fs/list", "{root}/../d/f", "{root}x/f",
    "file:///etc/passwd", "", "f", "{root}/../../etc/passwd", "{root}/..", "{root}", "{root}/", "http://[::1",
    "\\\\x\\y", "{root}@elsewhere/dav/f", "{root}/%ff%fe", "{root}/%00", "{root}/..%2f..%2fab/notes.txt",
)  # fmt: skip


@pytest.mark.parametrize("verb", TRANSFER_VERBS)
def test_invalid_or_foreign_destination_moves_nothing(attacker: Attacker, verb: str) -> None:
    scene = attacker.scene
    scene.reset()
    before = scene.scan_outside(), scene.scan_own()
    method, _, body = VERBS[verb]
    for text in DESTINATIONS:
        address = text.replace("{root}", attacker.root)
        headers = {"destination": address, "authorization": make_basic(attacker.name, PASSWORD)}
        connection = http.client.HTTPConnection(urlsplit(scene.service.address).netloc, timeout=60)
        connection.request(method, "/dav/sub", body, headers)
        status = connection.getresponse().status
        connection.close()
        assert 400 <= status < 500 or status == 502, (text, status)  # RFC 4918, section 9.8.5
    assert (scene.scan_outside(), scene.scan_own()) == before


RULES: dict[str, dict[str, Any]] = {
    "password": {"password": "sesame", "p_sub": True},
    "readers": {"read_users": [987_654], "read_users_sub": True, "write_users": [987_654], "write_users_sub": True},
    "writers": {"write_users": [987_654], "write_users_sub": True},
}


@pytest.mark.parametrize("rule", RULES)
def test_what_a_rule_keeps_stays_as_it_is_for_every_verb(attacker: Attacker, admin: Client, rule: str) -> None:
    scene = attacker.scene
    scene.reset()
    guarded: Path = scene.disk / "empty"
    (guarded / "notes.txt").write_text(scene.secret)
    readable = rule == "writers"
    with add_rule(admin, f"{scene.base}/empty", **RULES[rule]):
        before = {path: facts for path, facts in scan(guarded).items() if path != str(guarded)}
        for verb in ALL:
            for path in ("/empty/notes.txt", "/empty", "/empty/", "/sub/../empty/notes.txt", "//empty//notes.txt"):
                if not (scene.disk / "f.txt").exists():
                    (scene.disk / "f.txt").write_text("mine")
                status, answer = attacker.send(verb, path)
                assert status < 500, (verb, path, answer)
                assert readable or scene.secret.encode() not in answer, (verb, path, answer)
        after = {path: facts for path, facts in scan(guarded).items() if path != str(guarded)}
        assert {path: after.get(path) for path in before} == before
        assert not after.keys() - before.keys() or rule == "password", "what is dropped where one may not read"
    scene.reset()
