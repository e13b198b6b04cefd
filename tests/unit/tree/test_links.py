"""Signatures of download links."""

from __future__ import annotations

import hmac
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from mangrove.configuration.snapshot import Snapshot, SnapshotStore
from mangrove.configuration.values import Settings
from mangrove.core import runtime
from mangrove.core.paths import TreePath
from mangrove.core.problems import Unauthorized
from mangrove.identity.rights import Right
from mangrove.tree.access import TreeState
from mangrove.tree.mount_table import MountTable
from mangrove.tree.operations import links
from mangrove.tree.operations.links import LinkSigner, Purpose
from mangrove.tree.rules import Rules
from tests.unit.tree import builders

pytestmark = pytest.mark.usefixtures("engine")  # which has a master key

TOKEN, PATH = "dev_token", "/local/a b.txt"
OLD = "oZVEYK8_NpK5BAeDecwy2qXCLWX1nNHjO-J7CbGXtMA=:0"
SALTED = Settings({"token": TOKEN, "link_salt": "salt"})
START_TIME = int(time.time())


@pytest.fixture(autouse=True)
def configuration(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A configuration in memory without groups."""
    with runtime.use(runtime.Runtime()):
        snapshots = SnapshotStore()
        snapshots.snapshot = Snapshot(0, (), {}, Settings({}))
        runtime.put(SnapshotStore, snapshots)
        yield


def sign(settings: Settings = SALTED, path: str = PATH, owner: int = 7, purpose: Purpose = Purpose.FILE) -> str:
    return links.make_signer(settings, owner, purpose).sign(path)


def refusal(signature: str, settings: Settings = SALTED, purpose: Purpose = Purpose.FILE) -> str:
    """Why a signature is not good for PATH; "" when it is."""
    try:
        links.verify(settings, PATH, signature, purpose)
    except Unauthorized as problem:
        return problem.message
    return ""


def make(hours: int, **stored: str) -> Settings:
    return Settings({"token": TOKEN, "link_salt": "salt", "link_expiration": str(hours)} | stored)


def test_a_signature_names_its_user_and_ends_as_clients_expect() -> None:
    signature = sign()
    assert signature.endswith(":0")
    assert links.verify(SALTED, PATH, signature) == links.verify(SALTED, PATH, f"{signature}/") == 7
    assert sign() == signature, "a page of links can be kept"


@pytest.mark.parametrize(
    ("path", "expires", "signature"),
    [
        (PATH, 0, OLD),
        (PATH, 1893456000, "2UqK-7kzYXuAQFZOQNOZRp10n-OtuLDmO4FWp9ow7m4=:1893456000"),
    ],
)
def test_links_of_old_are_good_until_the_token_is_renewed(path: str, expires: int, signature: str) -> None:
    assert links.sign_with_token(TOKEN, path, expires) == signature
    assert links.verify(Settings({"token": TOKEN}), path, signature) is None
    for settings in (SALTED, Settings({"token": "another"}), Settings({})):
        assert refusal(signature, settings) == "sign invalid"


def test_links_of_old_into_archives_have_their_own_key() -> None:
    signature = links.sign_with_token("dev_token-archive", "/local/x.zip")
    assert signature == "jsml5otl6yUWcEL9YNDxQsLd0O6csttiryUEnbjyZzk=:0"
    assert links.verify(Settings({"token": TOKEN}), "/local/x.zip", signature, Purpose.ARCHIVE) is None
    with pytest.raises(Unauthorized):
        links.verify(Settings({"token": TOKEN}), "/local/x.zip", signature)
    assert refusal(links.sign_with_token("-archive", PATH), Settings({}), Purpose.ARCHIVE) == "sign invalid"


def test_links_of_old_that_never_end_are_good_only_while_links_do_not_end() -> None:
    now = make(1, link_salt="")
    assert refusal(OLD, now) == "sign expired"
    assert refusal(links.sign_with_token(TOKEN, PATH, START_TIME + 36_000), now) == ""


@pytest.mark.parametrize(
    ("signature", "reason"),
    [
        ("", "expire missing"), ("/", "expire missing"), (OLD[:-1], "expire missing"), (OLD[:-2], "expire invalid"),
        ("x:y", "expire invalid"), ("x:-1", "expire invalid"), ("x:\u0663", "expire invalid"),
        ("0", "expire invalid"), (f"x:{10**400}", "expire invalid"), ("x:1", "sign expired"), ("x:0", "sign invalid"),
        ("\u00e4:0", "sign invalid"), (OLD, "sign invalid"), (f"{'A' * 56}:0", "sign invalid"),
        (f"{'A' * 56}:0000", "sign invalid"), (f"{'A' * 5600}:0", "sign invalid"),
    ],
)  # fmt: skip
def test_what_is_no_signature_is_refused_with_the_reason(signature: str, reason: str) -> None:
    assert refusal(signature) == reason


def test_a_signature_is_good_for_nothing_else() -> None:
    good = sign()
    digest, _, _ = good.partition(":")
    for other in (
        f"{digest}:{START_TIME + 9999}",
        good.upper(),
        ("B" if good.startswith("A") else "A") + good[1:],
        digest[:-2] + "AI:0",  # another user
        digest[:44] + "AAAA" + digest[48:] + ":0",  # another time
        sign(path="/local/a%20b.txt"),
        sign(path="/local"),
        sign(purpose=Purpose.ARCHIVE),
        sign(Settings({"token": TOKEN, "link_salt": "another"})),
        sign(Settings({"token": TOKEN})),
    ):
        assert other != good
        assert refusal(other) == "sign invalid"


def test_no_link_allows_guessing_the_permanent_token() -> None:
    assert sign(Settings({"token": "guess", "link_salt": "salt"})) == sign(), "the token has no part in it"
    signer = links.make_signer(SALTED, 7)
    for key in (TOKEN, f"{TOKEN}-archive", f"{TOKEN}salt", "salt"):
        assert LinkSigner(key.encode(), 7, signer.issued, 0).sign(PATH) != sign()
        assert hmac.digest(key.encode(), f"{PATH}:0".encode(), "sha256") not in sign().encode()


def test_links_expire_after_hours_rounded_up() -> None:
    for hours in (0, -3):
        assert links.make_signer(make(hours), 1).expires == 0
    ends = links.make_signer(make(2), 1).expires
    assert ends % links.TIME_STEP_SECONDS == 0
    assert 0 < ends - time.time() - 7200 <= links.TIME_STEP_SECONDS


def test_the_setting_has_its_effect_on_links_that_were_given_out_before(monkeypatch: pytest.MonkeyPatch) -> None:
    lasting, bounded = sign(make(0)), sign(make(24))
    monkeypatch.setattr(links, "time", SimpleNamespace(time=lambda: START_TIME + 7200.0))
    assert [refusal(lasting, make(hours)) for hours in (0, 3, 1)] == ["", "", "sign expired"]
    assert [refusal(bounded, make(hours)) for hours in (24, 0, 3, 1)] == ["", "", "", "sign expired"]
    monkeypatch.setattr(links, "time", SimpleNamespace(time=lambda: START_TIME + 25 * 3600.0))
    assert refusal(bounded, make(0)) == "sign expired", "what a link says of itself stays"


@pytest.mark.parametrize(
    ("user", "may_read"),
    [
        ({}, True), ({"disabled": True}, False), ({"base_path": "/a/b"}, True), ({"base_path": "/a/bc"}, False),
        ({"base_path": "/other"}, False), ({"id": 8}, False), ({"permission": 0}, False),
        ({"permission": Right.SEE_HIDDEN}, True),
    ],
)  # fmt: skip
def test_a_link_ends_when_its_user_may_no_longer_read(user: dict[str, object], may_read: bool) -> None:
    hide = builders.meta("/a/b", hide="^secret$", read_users=[7], read_users_sub=True)
    owner = builders.user(**{"permission": Right.SEE_HIDDEN} | user)
    try:
        path = TreePath("/a/b/secret")
        links.require_reader(owner, Rules({hide.path: hide}), path, [path], Purpose.FILE)
        is_allowed = True
    except Unauthorized as problem:
        is_allowed = problem.message != "sign revoked"
    assert is_allowed == may_read


def test_a_link_into_an_archive_ends_with_the_right_to_look_into_archives() -> None:
    path = TreePath("/x.zip")
    links.require_reader(builders.user(Right.READ_ARCHIVES), Rules({}), path, [path], Purpose.ARCHIVE)
    for user in (builders.user(0), None):
        with pytest.raises(Unauthorized):
            links.require_reader(user, Rules({}), path, [path], Purpose.ARCHIVE)


@pytest.mark.parametrize(
    ("rule", "guarded"),
    [
        ({}, []),
        ({"password": "x", "p_sub": True}, ["f", "g", "d/f"]),
        ({"read_users": [1], "read_users_sub": True}, ["f", "g", "d/f"]),
        ({"hide": "^f$"}, ["f"]),
        ({"hide": "^f$", "h_sub": True}, ["f", "d/f"]),
        ({"hide": "^d$"}, ["d/f"]),
    ],
)
def test_what_a_rule_guards_is_signed_where_not_all_is(rule: dict[str, object], guarded: list[str]) -> None:
    meta = builders.meta("/m", **rule)
    table = MountTable(1, [builders.mount("/")])
    tree = TreeState(Settings({"sign_all": "false"}), Rules({meta.path: meta}), table)
    names = ("f", "g", "d/f")
    signed_names = [name for name in names if tree.needs_signature(TreePath(f"/m/{name}"))]
    assert signed_names == guarded
    assert not tree.needs_signature(TreePath("/other/f"))
    folders = {name.rpartition("/")[0] for name in guarded}
    for folder in folders:
        assert tree.signs_folder(TreePath(f"/m/{folder}"))


def test_addresses_are_encoded_as_paths() -> None:
    assert links.encode_path("/a b/\u00e4#?%&+'.txt") == "/a%20b/%C3%A4%23%3F%25&+'.txt"
