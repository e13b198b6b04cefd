"""Attacks 1-8 by SFTP, for every operation with a path: paths out of the base, rules, the guest, links, encodings."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from mangrove import configuration
from mangrove.core import runtime
from mangrove.core.runtime import Runtime
from mangrove.identity.rights import GUEST, Right
from mangrove.protocols.sftp.protocol import Handler
from mangrove.records import users
from tests.contract.attacks.scene import BARE, PARENT_PATHS
from tests.unit.protocols.sftp_scene import (
    DOOR,
    EVERYTHING,
    SECRET,
    SECRET_NAME,
    VERBS,
    WITHOUT_PATH,
    Scene,
    Verb,
    attempt,
    iter_verbs,
)
from tests.unit.tree.environment import TreeEnv

ALL_VERBS = dict(iter_verbs())
SAMPLE_VERBS = ("open rb", "open wb", "opendir", "posix_rename from", "posix_rename to", "remove")
SPELLINGS = ("/{}", "{}", "//{}", "/./{}", "/sub/../{}", "/sub/..//./{}", "/{}/", "/{}/.")


@pytest.fixture
def scene(records: None, tmp_path: Path) -> Iterator[Scene]:
    with runtime.use(Runtime()):
        tree = TreeEnv(tmp_path)
        try:
            yield Scene(tree)
        finally:
            tree.close()


def list_escapes() -> Iterator[bytes]:
    """Paths that mean something outside, if anything."""
    targets = ("ab", f"ab/{SECRET_NAME}", SECRET_NAME, "ab/new", "")
    for up in PARENT_PATHS:
        for target in targets:
            for start in ("/", "", "/sub/"):
                yield f"{start}{up}{target}".encode("utf-8", "surrogateescape")
    for text in BARE:
        yield f"/../{text}".encode()
    for link in ("link-out", "link-file", "link-new"):
        for rest in ("", f"/{SECRET_NAME}", "/x", "/."):
            yield f"/{link}{rest}".encode()
    yield from (b"", b"/disk/team/ab", b"/ab/../../ab", b"/\xff/../../ab", b"~/../ab", b"/f.txt/../../ab")
    yield b"/\xed\xa0\x80"


async def try_all(scene: Scene, verbs: Sequence[Verb], paths: Sequence[bytes]) -> None:
    """Every verb with every path; fails when a client is told what is the neighbours'."""
    async with scene.enter() as client:
        for verb in verbs:
            for path in paths:
                scene.reset()
                result = await attempt(verb, client, path)
                if verb is ALL_VERBS["realpath"]:
                    continue  # tells what was asked
                assert SECRET not in repr(result).encode() and SECRET_NAME not in repr(result), (path, result)
                assert getattr(result, "size", None) != len(SECRET), (path, result)


def attack(scene: Scene, verbs: Sequence[Verb], paths: Sequence[bytes], *own: str) -> None:
    before = scene.find_without(*own)
    scene.tree.run(try_all(scene, verbs, paths))
    assert scene.find_without(*own) == before


def test_every_sftp_request_is_attacked_or_has_no_path() -> None:
    handlers = {handle.__name__ for handle in Handler._packet_handlers.values()}
    assert handlers == {*VERBS, *WITHOUT_PATH}


def test_a_few_verbs_do_not_lead_out_of_the_base_path(scene: Scene) -> None:
    paths = [b"/../ab/canary.txt", b"../../../team/ab", b"/link-out/canary.txt", b"/link-file", b"/sub/../../ab/new"]
    attack(scene, [ALL_VERBS[name] for name in SAMPLE_VERBS], paths, "")


@pytest.mark.long
@pytest.mark.parametrize("verb", ALL_VERBS)
def test_no_verb_leads_out_of_the_base_path(scene: Scene, verb: str) -> None:
    attack(scene, [ALL_VERBS[verb]], list(dict.fromkeys(list_escapes())), "")


RULES: dict[str, dict[str, Any]] = {
    "locked": {"path": "/disk/team/a/locked", "password": "sesame", "p_sub": True},
    "hidden": {"path": "/disk/team/a", "hide": "^hidden$", "h_sub": True},
    "reserved": {"path": "/disk/team/a/reserved", "read_users": [999], "read_users_sub": True, "write_users": [999],
                 "write_users_sub": True},
}  # fmt: skip


VERB_SETS = [pytest.param(SAMPLE_VERBS, id="a few"), pytest.param(tuple(ALL_VERBS), marks=pytest.mark.long, id="all")]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("verbs", VERB_SETS)
def test_what_a_rule_keeps_from_the_user_is_neither_told_nor_changed(
    scene: Scene, rule: str, verbs: Sequence[str]
) -> None:
    scene.tree.add_rule(**RULES[rule])
    spellings = SPELLINGS if len(verbs) == len(ALL_VERBS) else SPELLINGS[:1]
    paths = [text.format(place).encode() for place in (f"{rule}/file", f"{rule}/new", rule) for text in spellings]
    before = scene.find_without("f.txt", "sub", "stolen")
    scene.tree.run(try_all(scene, [ALL_VERBS[name] for name in verbs], paths))
    after = scene.find_without("f.txt", "sub", "stolen")
    assert {path: after.get(path) for path in before} == before
    new = [path for path in after if path not in before]
    assert not new or rule != "reserved", "who may write but not read drops things there under names of their own"
    assert all(path.is_relative_to(scene.home / rule) for path in new)


@pytest.mark.parametrize("verb", ["open xb", "mkdir", "rename to", "posix_rename to"])
def test_hidden_name_that_has_to_be_free_is_refused_taken_or_not(scene: Scene, verb: str) -> None:
    """The pattern hides also the name that an entry would get if its own is taken."""
    scene.tree.add_rule("/disk/team/a/sub", hide="secret")
    (scene.home / "sub/secret-taken").mkdir()
    before = sorted(scene.home.rglob("*"))

    async def work() -> None:
        async with scene.enter() as client:
            for path in (b"/sub/secret-taken", b"/sub/secret-free"):
                with pytest.raises(asyncssh.SFTPError, match="hidden here"):
                    await ALL_VERBS[verb](client, path)

    scene.tree.run(work())
    assert sorted(scene.home.rglob("*")) == before


@pytest.mark.parametrize("way", ["no manage", "no rights", "write_users"])
def test_no_verb_changes_anything_without_the_right_to(scene: Scene, way: str) -> None:
    if way == "write_users":
        scene.tree.add_rule("/disk/team/a", write_users=[999], write_users_sub=True)
    else:
        scene.be(EVERYTHING & ~Right.FTP_MANAGE if way == "no manage" else DOOR)
    changing = [verb for name, verb in ALL_VERBS.items() if name not in ("open rb", "opendir", "stat", "lstat")]

    async def work() -> None:
        async with scene.enter() as client:
            for verb in changing:
                for path in (b"/f.txt", b"/sub", b"/new", b"/empty"):
                    await attempt(verb, client, path)

    before = scene.find_without(), sorted(scene.home.rglob("*")), (scene.home / "f.txt").stat().st_mtime
    scene.tree.run(work())
    assert (scene.find_without(), sorted(scene.home.rglob("*")), (scene.home / "f.txt").stat().st_mtime) == before


def test_guest_signs_in_without_password_and_is_read_only(scene: Scene) -> None:
    guest = users.create(
        username="guest", password_hash="x", role=GUEST, permission=int(Right.FTP_READ), base_path="/disk/team/a"
    )
    configuration.get_sync()

    async def work() -> None:
        async with scene.enter("guest", client_keys=None) as client:
            assert await client.exists(b"/f.txt")
            for name, verb in ALL_VERBS.items():
                if name not in ("open rb", "opendir", "stat", "lstat"):
                    for path in (b"/f.txt", b"/sub", b"/new"):
                        await attempt(verb, client, path)

    before = scene.find_without(), sorted(scene.home.rglob("*"))
    scene.tree.run(work())
    assert (scene.find_without(), sorted(scene.home.rglob("*"))) == before
    users.change(guest.id, disabled=True)
    configuration.get_sync()
    with pytest.raises(asyncssh.PermissionDenied):
        scene.tree.run(work())


def test_every_verb_is_refused_as_soon_as_the_account_is_disabled(scene: Scene) -> None:
    async def work() -> None:
        async with scene.enter() as client:
            assert stat.S_ISREG((await client.stat(b"/f.txt")).permissions or 0)
            file = await client.open(b"/sub/begun", "wb")
            await file.write(b"x")
            scene.be(EVERYTHING, disabled=True)
            for name, verb in ALL_VERBS.items():
                if name != "realpath":  # tells what was asked
                    with pytest.raises(asyncssh.SFTPError):
                        await verb(client, b"/f.txt")
            with pytest.raises(asyncssh.SFTPError):
                await file.close()

    scene.tree.run(work())
    assert (scene.home / "f.txt").read_bytes() == b"mine" and not (scene.home / "sub/begun").exists()
