"""Session tokens: what ends one, and when the table is asked."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import jwt
import pytest

from mangrove.core import runtime
from mangrove.core.config import Config
from mangrove.core.problems import Unauthorized
from mangrove.identity import tokens
from mangrove.identity.tokens import VERIFIED_TOKENS, VerifiedToken
from mangrove.records import sessions, settings
from mangrove.records.store.base import count_calls
from mangrove.records.store.keys import Key, keyring
from mangrove.records.users import User
from tests.unit.tree import builders

pytestmark = pytest.mark.usefixtures("records")

ANN = builders.user(username="ann", pwd_ts=5)


IN_A_FUNCTION = """
import sys
from mangrove.identity import tokens
from mangrove.records.store.keys import Keyring
from tests.unit.tree import builders

issued = tokens.issue(builders.user(username="ann", pwd_ts=5))
assert tokens.find_session(issued).username == "ann"
assert not [name for name in sys.modules if name.startswith(tokens.PUBLIC_KEYS)]
import cryptography.x509, asyncssh
"""


def test_a_function_reads_tokens_without_what_public_keys_need(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(bytes(32))
    environment = os.environ | {"AWS_LAMBDA_FUNCTION_NAME": "any", "MANGROVE_KEY_FILE": str(key)}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    subprocess.run([sys.executable, "-c", IN_A_FUNCTION], env=environment, check=True)


def find(token: str, *users: User) -> User:
    known = {user.username: user for user in users or (ANN,)}

    async def find_user(username: str) -> User | None:
        return known.get(username)

    return asyncio.run(tokens.user_of(token, find_user))


def refusal(token: str, *users: User) -> str:
    with pytest.raises(Unauthorized) as caught:
        find(token, *users)
    return caught.value.message


def trust(seconds: float | None) -> None:
    runtime.put(Config, replace(Config(), snapshot_seconds=seconds))


def sign(key: bytes | str | None = None, algorithm: str = "HS256", **claims: Any) -> str:
    """A token with claims of its own; None leaves one out."""
    now = int(time.time())
    whole = {"username": "ann", "pwd_ts": 5, "exp": now + 60, "iat": now, "nbf": now, "jti": "j"} | claims
    known = {name: value for name, value in whole.items() if value is not None}
    return jwt.encode(known, keyring().get(Key.TOKEN) if key is None else key, algorithm)


def test_a_token_stands_for_the_present_record_of_its_user() -> None:
    token = tokens.issue(ANN)
    assert find(token) is ANN
    changed = replace(ANN, permission=3)
    assert find(token, changed) is changed


@pytest.mark.parametrize(
    ("user", "message"),
    [
        (replace(ANN, username="bob"), "failed find user: record not found"),
        (replace(ANN, pwd_ts=6), "Password has been changed, login please"),
        (replace(ANN, disabled=True), "Current user is disabled, replace please"),
    ],
)
def test_a_change_of_the_user_ends_the_token(user: User, message: str) -> None:
    token = tokens.issue(ANN)
    find(token)
    assert refusal(token, user) == message


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({"exp": 0}, "token is expired"), ({"nbf": 1 << 40}, "token not active yet"),
        ({"nbf": int(time.time()) + 3600}, "token not active yet"),
        ({"username": None}, "token is invalidated"), ({"jti": None}, "token is invalidated"),
        ({"iat": None}, "token is invalidated"), ({"pwd_ts": "x"}, "token is invalidated"),
        ({"exp": "never"}, "token is invalidated"), ({"key": b"k" * 32}, "token is invalidated"),
        ({"key": b"k" * 64, "algorithm": "HS512"}, "token is invalidated"),
        ({"algorithm": "none", "key": ""}, "token is invalidated"),
    ],
)  # fmt: skip
def test_what_is_no_valid_token_is_refused_in_the_words_clients_know(claims: dict[str, Any], message: str) -> None:
    assert refusal(sign(**claims)) == message


@pytest.mark.parametrize("text", ["", "x", "a.b.c", "mangrove-permanent"])
def test_other_text_is_no_token(text: str) -> None:
    assert refusal(text) == "token is invalidated"
    tokens.revoke(text)


def test_a_logout_ends_all_spellings_of_a_token_at_once() -> None:
    trust(None)
    token, other = tokens.issue(ANN), tokens.issue(ANN)
    spelled = token + "="
    for text in (token, spelled, other):
        assert find(text) is ANN
    tokens.revoke(token)
    assert refusal(token) == refusal(spelled) == "token is invalidated"
    assert find(other) is ANN


def test_the_table_is_asked_once_while_the_answer_is_trusted() -> None:
    trust(None)
    token = tokens.issue(ANN)
    find(token)
    before = count_calls()
    find(token)
    assert count_calls() == before
    trust(0.0)
    find(token)
    assert count_calls() == before + 1


def test_a_logout_in_another_process_is_seen_when_the_answer_is_old() -> None:
    token = tokens.issue(ANN)
    jti = jwt.decode(token, options={"verify_signature": False})["jti"]
    trust(None)
    find(token)
    sessions.revoke(jti, int(time.time()) + 60)
    assert find(token) is ANN
    trust(0.0)
    assert refusal(token) == "token is invalidated"


def test_configuration_version_is_read_with_due_session() -> None:
    trust(60.0)
    token = tokens.issue(ANN)
    settings.save({"a": "b"})
    before = count_calls()
    for _ in range(2):
        assert tokens.read_version(token) == 1
        assert find(token) is ANN
    assert count_calls() == before + 2, "the second one of the version alone"
    assert tokens.read_version("x") == tokens.read_version("") == 1
    assert refusal("x") == "token is invalidated"


def test_a_session_that_was_ended_is_refused_whoever_looked_first() -> None:
    trust(60.0)
    token = tokens.issue(ANN)
    jti = jwt.decode(token, options={"verify_signature": False})["jti"]
    sessions.revoke(jti, int(time.time()) + 60)
    tokens.read_version(token)
    assert refusal(token) == "token is invalidated"


def test_revoke_of_a_session_removes_all_spellings_of_its_token() -> None:
    ended, other = (VerifiedToken("ann", 5, 0, 0, jti, 0) for jti in ("ended", "other"))
    for text, token in (("a", ended), ("b", ended), ("c", other)):
        VERIFIED_TOKENS.open().put(text, token)
    tokens.revoke_session("ended", int(time.time()) + 60)
    assert [VERIFIED_TOKENS.open().get(text) for text in "abc"] == [None, None, other]
