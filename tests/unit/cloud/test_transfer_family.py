"""The answers to a server of AWS Transfer Family: all that a policy of S3 can say as our rules would, and no more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mangrove import configuration
from mangrove.cloud import transfer_family
from mangrove.cloud.transfer_family import find_shown, identify, make_answer
from mangrove.core import runtime
from mangrove.core.runtime import Runtime
from mangrove.identity import accounts, app_passwords, keys, passwords
from mangrove.identity.app_passwords import NewToken
from mangrove.identity.rights import GUEST, Caller, Right
from mangrove.records import settings, users
from tests.unit.identity.test_keys import ED25519
from tests.unit.tree.environment import TreeEnv

BUCKET = "our-files"
ROLE = "arn:aws-cn:iam::123456789012:role/transfer"
EVENT = {"username": "u", "password": "", "protocol": "SFTP", "serverId": "s-1", "sourceIp": "203.0.113.7"}
PASSWORD = "a long password"


@pytest.fixture
def tree(records: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TreeEnv]:
    monkeypatch.setenv("MANGROVE_FILES_BUCKET", BUCKET)
    monkeypatch.setenv("MANGROVE_TRANSFER_ROLE", ROLE)
    with runtime.use(Runtime()):
        env = TreeEnv(tmp_path)
        try:
            yield env
        finally:
            env.close()


def mount(tree: TreeEnv, path: str, root: str = "/", driver: str = "S3", **options: Any) -> None:
    tree.mount(path, driver, options={"bucket": BUCKET, "endpoint": "", "root_folder_path": root} | options)


def show(tree: TreeEnv) -> list[tuple[str, str]]:
    return [(shown.entry, shown.prefix) for shown in tree.run(find_shown(Caller(tree.user, Right.WRITE)))]


def ask(tree: TreeEnv, **event: Any) -> dict[str, Any]:
    return tree.run(identify(EVENT | event))


def test_mounts_of_bucket_are_shown_and_base_path_is_root(tree: TreeEnv) -> None:
    mount(tree, "/a", "/deep/a")
    mount(tree, "/b/c")
    assert show(tree) == [("/a", "deep/a/"), ("/b/c", "")]
    tree.change_user(base_path="/b")
    assert show(tree) == [("/c", "")]
    tree.change_user(base_path="/a/home/of u")
    assert show(tree) == [("/", "deep/a/home/of u/")]
    tree.change_user(base_path="/elsewhere")
    assert show(tree) == []


@pytest.mark.parametrize(
    "options",
    [{"driver": "Virtual"}, {"bucket": "of-others"}, {"endpoint": "http://127.0.0.1:9"}, {"root": "/a*"},
     {"root": "/a?"}, {"root": "/${aws:username}"}],
)  # fmt: skip
def test_foreign_or_ambiguous_paths_are_not_shown(tree: TreeEnv, options: dict[str, str]) -> None:
    mount(tree, "/ours")
    mount(tree, "/other", **options)  # type: ignore[arg-type]
    assert show(tree) == [("/ours", "")]


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("/a", {"password": "x"}),
        ("/a/deep/er", {"password": "x"}),
        ("/", {"password": "x", "p_sub": True}),
        ("/a/deep", {"hide": "secret"}),
        ("/", {"hide": "secret", "h_sub": True}),
        ("/", {"hide": "^a$"}),
        ("/a", {"read_users": [999], "read_users_sub": True}),
        ("/a/deep", {"read_users": [999]}),
    ],
)
def test_mount_with_restricting_rule_is_not_shown(tree: TreeEnv, path: str, rule: dict[str, Any]) -> None:
    mount(tree, "/a", "/a")
    tree.add_rule(path, **rule)
    assert show(tree) == []
    tree.change_user(0xFFFF)
    assert show(tree) == ([] if "read_users" in rule else [("/a", "a/")]), "who may see hidden names and skip passwords"


def test_unrelated_or_informative_rules_do_not_hide_mounts(tree: TreeEnv) -> None:
    mount(tree, "/a", "/a")
    tree.add_rule("/ab", password="x", p_sub=True)
    tree.add_rule("/", password="x")
    tree.add_rule("/a/b", readme="read me", r_sub=True)
    assert show(tree) == [("/a", "a/")]


def test_nested_and_balanced_mounts_are_not_shown(tree: TreeEnv) -> None:
    mount(tree, "/a", "/a")
    mount(tree, "/a/inner", "/inner")
    mount(tree, "/b", "/b")
    mount(tree, "/b.balance1", "/c")
    assert show(tree) == [("/a/inner", "inner/")]
    tree.change_user(base_path="/a/home")
    assert show(tree) == [("/", "a/home/")], "the other mount is not below it"


@pytest.mark.parametrize(
    ("permission", "actions"),
    [
        (Right.FTP_READ | Right.WRITE | Right.DELETE, {"s3:GetObject"}),
        (Right.FTP_READ | Right.FTP_MANAGE, {"s3:GetObject"}),
        (Right.FTP_READ | Right.FTP_MANAGE | Right.WRITE, {"s3:GetObject", "s3:PutObject"}),
        (Right.FTP_READ | Right.FTP_MANAGE | Right.DELETE, {"s3:GetObject", "s3:DeleteObject"}),
    ],
)
def test_the_policy_has_the_users_rights_and_no_other_place(tree: TreeEnv, permission: int, actions: set[str]) -> None:
    mount(tree, "/a", "/deep/a")
    tree.change_user(int(permission))
    answer = make_answer(ROLE, tree.run(find_shown(Caller(tree.user, Right.WRITE))))
    listing, *others = json.loads(answer["Policy"])["Statement"]
    assert listing == {
        "Effect": "Allow", "Action": "s3:ListBucket", "Resource": f"arn:aws-cn:s3:::{BUCKET}",
        "Condition": {"StringLike": {"s3:prefix": ["deep/a", "deep/a/*"]}},
    }  # fmt: skip
    assert {action for statement in others for action in statement["Action"]} == actions
    assert {place for statement in others for place in statement["Resource"]} == {f"arn:aws-cn:s3:::{BUCKET}/deep/a/*"}
    assert (answer["Role"], answer["HomeDirectoryType"]) == (ROLE, "LOGICAL")
    assert json.loads(answer["HomeDirectoryDetails"]) == [{"Entry": "/a", "Target": f"/{BUCKET}/deep/a"}]


def test_mount_is_read_only_if_rule_denies_writing(tree: TreeEnv) -> None:
    mount(tree, "/a", "/a")
    tree.add_rule("/a/b", write_users=[999])
    (shown,) = tree.run(find_shown(Caller(tree.user, Right.WRITE)))
    assert not shown.may_write and not shown.may_delete


def test_a_policy_is_never_longer_than_aws_takes(tree: TreeEnv) -> None:
    for number in range(40):
        mount(tree, f"/{number:02}", f"/{'x' * 100}{number}")
    shown = tree.run(find_shown(Caller(tree.user, Right.WRITE)))
    assert 2 < len(shown) < 40
    assert len(make_answer(ROLE, shown)["Policy"]) <= transfer_family.MAX_POLICY_LENGTH


def test_passwords_and_keys_let_in_as_at_the_door_on_one_machine(tree: TreeEnv) -> None:
    mount(tree, "/a", "/a")
    users.change(tree.user.id, password_hash=passwords.hash_password(PASSWORD))
    assert ask(tree) == {}, "no key"
    keys.add(tree.user.id, "laptop", ED25519)
    _, text = app_passwords.add(tree.user.id, NewToken("scanner"))
    by_key = ask(tree)
    assert by_key.pop("PublicKeys") == [ED25519]
    assert ask(tree, password=PASSWORD) == ask(tree, password=text) == by_key
    accounts.update_me(users.get(tree.user.id), "u", "", "")
    settings.save({"sftp_disable_password_login": "true"})
    assert ask(tree, password=text) == {} and ask(tree)
    users.change(tree.user.id, disabled=True)
    assert ask(tree) == {}


def test_wrong_passwords_lock_out(tree: TreeEnv) -> None:
    mount(tree, "/a", "/a")
    users.change(tree.user.id, password_hash=passwords.hash_password(PASSWORD))
    for _ in range(5):
        assert ask(tree, password="wrong") == {}
    assert ask(tree, password=PASSWORD) == {}


def test_who_may_not_use_the_door_the_guest_and_nobody_are_refused(tree: TreeEnv) -> None:
    mount(tree, "/a", "/a")
    keys.add(tree.user.id, "laptop", ED25519)
    tree.change_user(int(Right.WRITE))
    guest = users.create(username="guest", password_hash="x", role=GUEST, permission=0xFFFF)
    keys.add(guest.id, "laptop", ED25519)
    configuration.get_sync()
    for name in ("u", "guest", "nobody"):
        assert ask(tree, username=name) == {}


@pytest.mark.parametrize(
    "event",
    [{"username": ""}, {"username": None}, {"username": 1}, {"username": "u" * 2000}, {"password": ["x"]},
     {"password": "x" * 2000}, {"protocol": "FTP"}, {"protocol": {}}, {"sourceIp": 1}],
)  # fmt: skip
def test_an_event_that_is_none_is_refused(tree: TreeEnv, event: dict[str, Any]) -> None:
    mount(tree, "/a", "/a")
    keys.add(tree.user.id, "laptop", ED25519)
    assert ask(tree) and ask(tree, **event) == {}
    assert tree.run(identify({})) == {}
