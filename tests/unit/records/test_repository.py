"""Records on the real engine: names are unique under a race, changes do not get lost, secrets are not readable."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import boto3
import pytest

from mangrove.problems import Problem

pytestmark = pytest.mark.usefixtures("records")


def test_ids_are_never_given_twice() -> None:
    from mangrove.records import counters

    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda _: counters.next_id("x"), range(100)))
    assert sorted(ids) == list(range(1, 101))


def test_of_many_creates_with_one_name_one_wins() -> None:
    from mangrove.records import users

    def create(_: int) -> bool:
        try:
            users.create(username="same", password_hash="x")
        except Problem as problem:
            assert problem.message == users.TAKEN
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(create, range(16))) == 1
    assert [user.username for user in users.all()] == ["same"]


def test_a_name_moves_with_its_record_and_is_free_after_delete() -> None:
    from mangrove.records import users

    first = users.create(username="a", password_hash="x")
    users.change(first.id, username="b")
    second = users.create(username="a", password_hash="x")
    with pytest.raises(Problem, match="UNIQUE"):
        users.change(second.id, username="b")
    users.delete(first.id)
    assert users.change(second.id, username="b").username == "b"
    with pytest.raises(Problem, match="record not found"):
        users.get(first.id)


def test_concurrent_changes_of_one_record_all_count() -> None:
    from mangrove.records import users

    user = users.create(username="u", password_hash="x")
    fields = [{"sso_id": "s"}, {"permission": 7}, {"base_path": "/b"}, {"role": 0}]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda change: users.change(user.id, **change), fields))
    after = users.get(user.id)
    assert (after.sso_id, after.permission, after.base_path) == ("s", 7, "/b")


def test_secrets_are_sealed_in_the_table(engine: str) -> None:
    from mangrove.records import metas, settings, users

    users.create(username="u", password_hash="hash-in-clear", otp_secret="otp-in-clear")
    metas.create(path="/x", password="folder-in-clear")
    settings.save({"token": "token-in-clear"})
    client = boto3.client("dynamodb", endpoint_url=engine)
    for kind in ("users", "metas", "settings"):
        items = client.scan(TableName=f"mangrove-{kind}")["Items"]
        assert items
        assert "in-clear" not in str(items)
    assert users.all()[0].otp_secret == "otp-in-clear"
    assert settings.all() == {"token": "token-in-clear"}


def test_failures_count_up_and_end() -> None:
    from mangrove.records import counters

    assert counters.count_failures("k") == 0
    assert [counters.add_failure("k", 60) for _ in range(3)] == [1, 2, 3]
    assert counters.count_failures("k") == 3
    counters.clear_failures("k")
    assert counters.count_failures("k") == 0
    counters.add_failure("past", -1)
    assert counters.count_failures("past") == 0
    assert counters.add_failure("past", 60) == 1


def test_once_is_once() -> None:
    from mangrove.records import counters

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(lambda _: counters.claim_once("code", 60), range(16))) == 1
    assert counters.claim_once("other", -1)
    assert counters.claim_once("other", 60)


def test_a_delete_while_the_name_changes_leaves_no_name_taken() -> None:
    from mangrove.records import unique, users

    for number in range(15):
        user = users.create(username=f"u{number}", password_hash="x")
        with ThreadPoolExecutor(2) as pool:
            renamed = pool.submit(users.change, user.id, username=f"v{number}")
            for done in (renamed, pool.submit(users.delete, user.id)):
                if done.exception() is not None:
                    assert str(done.exception()) in ("record not found", users.TAKEN)
    names = {f"users#{user.username}" for user in users.all()}
    assert {claim.name for claim in unique.Claim.scan()} == names


def test_of_two_changes_that_start_from_one_addition_the_second_is_refused() -> None:
    from datetime import UTC, datetime

    from mangrove.records import storages
    from mangrove.records.base import Conflict

    made = storages.create(mount_path="/x", driver="UrlTree", addition="{}", modified=datetime.now(UTC))
    assert storages.replace_addition(made.id, "{}", '{"a": 1}').addition == '{"a": 1}'
    with pytest.raises(Conflict):
        storages.replace_addition(made.id, "{}", '{"b": 1}')
    assert storages.get(made.id).addition == '{"a": 1}'


def test_what_has_ended_is_swept_and_nothing_else() -> None:
    import time

    from mangrove.records import counters, sessions

    counters.add_failure("ended", -10)
    counters.add_failure("lasting", 60)
    counters.claim_once("ended", -10)
    counters.next_id("kind")
    sessions.revoke("ended", int(time.time()) - 10)
    sessions.revoke("lasting", int(time.time()) + 60)
    counters.sweep()
    sessions.sweep()
    assert {counter.key for counter in counters.Counter.scan()} == {"failure#lasting", "id#kind"}
    assert [record.jti for record in sessions.SessionRecord.scan()] == ["lasting"]
    assert counters.count_failures("lasting") == 1
    assert sessions.is_revoked("lasting")


def test_new_names_given_at_once_to_one_record_all_count() -> None:
    from mangrove.records import unique, users

    user = users.create(username="u", password_hash="x")
    for number in range(6):
        names = [f"{number}-{one}" for one in range(3)]
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda name: users.change(user.id, username=name), names))
        assert users.get(user.id).username in names
    assert [claim.owner for claim in unique.Claim.scan()] == [user.id]


def test_a_name_that_no_key_can_hold_is_refused_as_too_long() -> None:
    from mangrove.records import metas

    with pytest.raises(Problem, match="too long"):
        metas.create(path="/" + "a" * 2048)
    assert metas.create(path="/" + "a" * 2000).id
