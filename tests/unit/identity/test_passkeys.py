"""Passkeys: registration, sign-in, and what is refused."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from mangrove.core.problems import BadRequest, ResourceNotFound, TooMany, Unauthorized
from mangrove.identity import accounts, lockout, passkeys
from mangrove.identity.accounts import UserFields
from mangrove.identity.passkeys import RelyingParty
from mangrove.records import login_challenges, users
from mangrove.records.passkeys import find_by_credential, save_use
from mangrove.records.passkeys import passkeys as records
from mangrove.records.store.base import NameTaken, RecordConflict, delete_expired
from mangrove.records.store.counters import Counter
from mangrove.records.users import User
from tests.support.authenticator import PRESENT, Authenticator, encode

pytestmark = pytest.mark.usefixtures("records")
SOURCE = "1.2.3.4"
PARTY = RelyingParty("files.example.org", "https://files.example.org", "Files")


def create_user(name: str = "ann") -> User:
    return accounts.create(UserFields(name, "/", 0, 0, False, "", True), "her own password")


def register(user: User, authenticator: Authenticator | None = None) -> Authenticator:
    authenticator = authenticator or Authenticator(PARTY.origin)
    options, session = passkeys.begin_registration(user, PARTY, SOURCE)
    passkeys.finish_registration(user, PARTY, session, authenticator.create(options), "laptop")
    return authenticator


def sign_in(authenticator: Authenticator, username: str = "") -> str:
    options, session = passkeys.begin_login(PARTY, SOURCE)
    return passkeys.finish_login(PARTY, session, authenticator.get(options), username, SOURCE)


def test_passkey_signs_in_without_password_or_code() -> None:
    ann = create_user()
    authenticator = register(ann)
    users.change(ann.id, otp_secret="JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP")
    assert sign_in(authenticator).count(".") == 2
    assert sign_in(authenticator, "ann").count(".") == 2
    (passkey,) = records.find_by_user(ann.id)
    assert (passkey.title, passkey.sign_count) == ("laptop", 2)


def test_options_require_verification_and_name_no_account() -> None:
    ann = create_user()
    register(ann)
    options, _ = passkeys.begin_registration(ann, PARTY, SOURCE)
    selection = options["publicKey"]["authenticatorSelection"]
    assert selection["residentKey"] == selection["userVerification"] == "required"
    assert len(options["publicKey"]["excludeCredentials"]) == 1
    options, _ = passkeys.begin_login(PARTY, SOURCE)
    assert options["publicKey"]["userVerification"] == "required"
    assert options["publicKey"]["rpId"] == PARTY.id
    assert not options["publicKey"].get("allowCredentials")


def test_challenge_is_used_once_and_only_for_its_purpose() -> None:
    ann = create_user()
    authenticator = register(ann)
    options, session = passkeys.begin_login(PARTY, SOURCE)
    answer = authenticator.get(options)
    assert passkeys.finish_login(PARTY, session, answer, "", SOURCE)
    for reused in (session, "", "x" * 200):
        with pytest.raises(BadRequest):
            passkeys.finish_login(PARTY, reused, answer, "", SOURCE)
    _, registration = passkeys.begin_registration(ann, PARTY, SOURCE)
    with pytest.raises(BadRequest):
        passkeys.finish_login(PARTY, registration, answer, "", SOURCE)
    with pytest.raises(Unauthorized):  # an answer to another challenge
        passkeys.finish_login(PARTY, passkeys.begin_login(PARTY, SOURCE)[1], answer, "", SOURCE)


def test_challenge_of_two_minutes_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    authenticator = register(create_user())
    options, session = passkeys.begin_login(PARTY, SOURCE)
    now = time.time()
    monkeypatch.setattr(login_challenges.time, "time", lambda: now + passkeys.CHALLENGE_SECONDS + 1)
    with pytest.raises(BadRequest, match="too long"):
        passkeys.finish_login(PARTY, session, authenticator.get(options), "", SOURCE)


def test_counter_that_does_not_rise_is_refused() -> None:
    authenticator = register(create_user())
    authenticator.sign_count = 10
    assert sign_in(authenticator)
    for count in (10, 9, 0):
        authenticator.sign_count = count  # it rises by one before it is sent
        with pytest.raises(Unauthorized):
            sign_in(authenticator)


def test_use_of_a_passkey_used_meanwhile_is_a_conflict() -> None:
    authenticator = register(create_user())
    passkey = find_by_credential(encode(authenticator.credential_id))
    assert passkey is not None
    save_use(passkey, 1)
    with pytest.raises(RecordConflict):
        save_use(passkey, 2)


def forge_origin(authenticator: Authenticator) -> None:
    authenticator.origin = "https://files.example.com"


def forge_party(authenticator: Authenticator) -> None:
    authenticator.rp_id = "example.org"


def forge_flags(authenticator: Authenticator) -> None:
    authenticator.flags = PRESENT


def forge_key(authenticator: Authenticator) -> None:
    authenticator.key = Authenticator(PARTY.origin).key


def forge_handle(authenticator: Authenticator) -> None:
    authenticator.user_handle = b"mangrove user 1"


def forge_id(authenticator: Authenticator) -> None:
    authenticator.credential_id = b"unknown"


@pytest.mark.parametrize("forge", [forge_origin, forge_party, forge_flags, forge_key, forge_handle, forge_id])
def test_assertion_with_another_fact_is_refused(forge: Callable[[Authenticator], None]) -> None:
    create_user("first")
    authenticator = register(create_user())
    forge(authenticator)
    with pytest.raises(Unauthorized, match="not accepted"):
        sign_in(authenticator)


@pytest.mark.parametrize("forge", [forge_origin, forge_party, forge_flags])
def test_registration_with_another_fact_is_refused(forge: Callable[[Authenticator], None]) -> None:
    ann, authenticator = create_user(), Authenticator(PARTY.origin)
    forge(authenticator)
    with pytest.raises(BadRequest, match="not accepted"):
        register(ann, authenticator)
    assert not records.find_by_user(ann.id)


def test_registration_is_for_the_user_who_began_it() -> None:
    ann, bob = create_user(), create_user("bob")
    options, session = passkeys.begin_registration(ann, PARTY, SOURCE)
    with pytest.raises(BadRequest):
        passkeys.finish_registration(bob, PARTY, session, Authenticator(PARTY.origin).create(options), "")
    authenticator = register(ann)
    with pytest.raises(Unauthorized):
        sign_in(authenticator, "bob")
    with pytest.raises(NameTaken, match="registered already"):
        register(bob, authenticator)


def test_disabled_user_stays_out() -> None:
    ann = create_user()
    authenticator = register(ann)
    users.change(ann.id, disabled=True)
    with pytest.raises(Unauthorized, match="disabled"):
        sign_in(authenticator)


def test_failures_lock_the_source_out() -> None:
    authenticator = register(create_user())
    forge_key(authenticator)
    for _ in range(lockout.MAX_FAILURES_PER_PAIR):
        with pytest.raises(Unauthorized):
            sign_in(authenticator)
    with pytest.raises(TooMany):
        sign_in(authenticator)


def test_passkeys_of_a_user_are_bounded_and_deleted_by_their_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    ann, bob = create_user(), create_user("bob")
    ids = [encode(register(ann).credential_id) for _ in range(2)]
    monkeypatch.setattr(passkeys, "MAX_PASSKEYS_PER_USER", 2)
    with pytest.raises(BadRequest, match="at most 2"):
        register(ann)
    for user_id, id in ((bob.id, ids[0]), (ann.id, "unknown"), (ann.id, "")):
        with pytest.raises(ResourceNotFound):
            passkeys.delete_own(user_id, id)
    passkeys.delete_own(ann.id, ids[0])
    records.delete_all(ann.id)
    assert not records.all()


def test_challenges_of_a_client_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_challenges, "MAX_CHALLENGES_PER_CLIENT", 3)
    for _ in range(3):
        passkeys.begin_login(PARTY, SOURCE)
    with pytest.raises(TooMany):
        passkeys.begin_login(PARTY, SOURCE)
    assert passkeys.begin_login(PARTY, "4.3.2.1")


def test_sweep_removes_expired_challenges(monkeypatch: pytest.MonkeyPatch) -> None:
    login_challenges.create("x", {}, -10)
    id = login_challenges.create("x", {"y": 1}, 60)
    delete_expired(login_challenges.ChallengeRecord)
    assert len(list(login_challenges.ChallengeRecord.scan())) == 1
    assert login_challenges.use("x", id) == {"y": 1}
    assert id not in repr([counter.key for counter in Counter.scan()])


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"id": "AQ", "rawId": "AQ", "type": "public-key", "response": {}},
        {"id": "AQ", "rawId": "AQ", "type": "x", "response": {"clientDataJSON": "", "attestationObject": ""}},
        {"id": "A", "rawId": "A", "type": "public-key", "response": {"clientDataJSON": "A", "attestationObject": "é"}},
        {"id": "AQ", "rawId": "AQ", "type": "public-key", "response": {"clientDataJSON": "bnVsbA"}},
    ],
)
def test_credential_that_is_not_well_formed_is_refused(broken: dict[str, Any]) -> None:
    ann = create_user()
    _, session = passkeys.begin_registration(ann, PARTY, SOURCE)
    with pytest.raises(BadRequest):
        passkeys.finish_registration(ann, PARTY, session, broken, "")
    id = encode(register(ann).credential_id)
    _, session = passkeys.begin_login(PARTY, SOURCE)
    response = {"authenticatorData": "AA", "signature": "AA"} | broken.get("response", {})
    with pytest.raises(Unauthorized):
        passkeys.finish_login(PARTY, session, broken | {"id": id, "rawId": id, "response": response}, "", SOURCE)


def test_site_without_a_name_has_no_passkeys() -> None:
    assert passkeys.make_relying_party("https://files.example.org", "Files") == PARTY
    with pytest.raises(BadRequest, match="MANGROVE_SITE_URL"):
        passkeys.make_relying_party("http://192.0.2.1:5244", "Files")
