"""Changes of the files bucket by other programs, and by the service itself, in search and on the event bus."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from mangrove.core.paths import TRASH
from mangrove.drivers.part_names import make_part_name
from tests.contract import bucket_scenario, index_scenarios
from tests.contract.bucket_scenario import Deliveries, find
from tests.contract.scenarios import Person
from tests.support import lambdas
from tests.support.policies import Policy, covers, read_inline
from tests.support.recorder import THROTTLED


@pytest.fixture(scope="module")
def admin() -> Iterator[Person]:
    """The administrator of a deployment with an index of its files."""
    with lambdas.deploy() as cloud:
        assert cloud.run_setup()["Status"] == "SUCCESS"
        function = cloud.get_function("BucketEventsFunction")
        function.policy = Policy("BucketEventsFunction", cloud.refs)
        admin = Person(cloud).sign_in("admin", lambdas.ADMIN_PASSWORD)
        index_scenarios.switch(admin, "database")
        yield admin


@pytest.fixture(scope="module")
def deliveries(admin: Person) -> Deliveries:
    return Deliveries(admin)


def put(deliveries: Deliveries, key: str, content: bytes = b"x") -> None:
    deliveries.store.put_object(Bucket=deliveries.bucket, Key=key, Body=content)


def make_body(kind: str, key: str) -> str:
    return json.dumps({"detail-type": kind, "time": "", "detail": {"bucket": {"name": "b"}, "object": {"key": key}}})


def test_object_of_another_program_is_found_and_announced_until_removed(admin: Person) -> None:
    bucket_scenario.run(admin)


def test_events_of_own_changes_do_no_harm(admin: Person, deliveries: Deliveries) -> None:
    assert admin.puts("/files/own folder/own.txt") == 200
    before = find(admin, "own")
    (written,) = deliveries.deliver()
    assert (written["path"], written["change"]) == ("/files/own folder/own.txt", "written")
    assert find(admin, "own") == before == ["/files/own folder", "/files/own folder/own.txt"]
    assert find_changer(admin, "/files/own folder/own.txt") == "admin"
    admin.gets("files/rename", path="/files/own folder/own.txt", name="renamed.txt")
    changes = {(detail["path"], detail["change"]) for detail in deliveries.deliver()}
    assert changes == {
        ("/files/own folder/renamed.txt", "written"),
        ("/files/own folder/own.txt", "removed"),
    }
    assert find(admin, "own.txt") == [] and find(admin, "renamed") == ["/files/own folder/renamed.txt"]
    assert find_changer(admin, "/files/own folder/renamed.txt") == "admin"
    put(deliveries, "own folder/renamed.txt")
    deliveries.deliver()
    assert find_changer(admin, "/files/own folder/renamed.txt") == "", "another program replaced it"
    admin.gets("files/remove", dir="/files", names=["own folder"])
    deliveries.deliver()
    assert find(admin, "own") == find(admin, "renamed") == []


def test_event_that_arrives_late_does_not_bring_a_removed_file_back(admin: Person, deliveries: Deliveries) -> None:
    put(deliveries, "late/late.txt")
    late = deliveries.take_messages()
    deliveries.store.delete_object(Bucket=deliveries.bucket, Key="late/late.txt")
    deliveries.deliver()
    assert deliveries.function({"Records": late}) == {"batchItemFailures": []}
    assert deliveries.take_announced() == [] and find(admin, "late") == []


def test_folders_of_new_objects_are_found_and_vanish_with_the_last_one(admin: Person, deliveries: Deliveries) -> None:
    for key in ("deep1/deep2/deep3/a", "deep1/b", "marked1/marked2/"):
        put(deliveries, key)
    assert sorted(detail["path"] for detail in deliveries.deliver()) == [
        "/files/deep1/b",
        "/files/deep1/deep2/deep3/a",
    ]
    assert find(admin, "marked") == ["/files/marked1", "/files/marked1/marked2"]
    deliveries.store.delete_object(Bucket=deliveries.bucket, Key="deep1/deep2/deep3/a")
    deliveries.deliver()
    assert find(admin, "deep") == ["/files/deep1"]


def test_many_objects_in_one_folder_are_one_row_of_the_log(admin: Person, deliveries: Deliveries) -> None:
    for number in range(60):
        put(deliveries, f"many/many-{number}")
    messages = deliveries.take_messages()
    records, table = admin.cloud.client("dynamodb"), f"{lambdas.STACK}-index_changes"
    before = records.scan(TableName=table)["Count"]
    deliveries.function({"Records": messages})
    assert records.scan(TableName=table)["Count"] - before == 2, "of the folder, and of the root that has it"
    assert len(deliveries.take_announced()) == 60
    assert find_count(admin, "many-") == 60


def find_changer(admin: Person, path: str) -> str:
    return str(admin.gets("search/changer", path=path)["username"])


def find_count(admin: Person, words: str) -> int:
    return index_scenarios.find(admin, words)


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(make_part_name(), id="part"),
        pytest.param(f"a/{make_part_name()}", id="part-in-folder"),
        f"{TRASH}/1/gone",
        "a//b",
        "a/../b",
        "a\x01b",
    ],
)
def test_object_that_no_listing_shows_is_ignored(admin: Person, deliveries: Deliveries, key: str) -> None:
    message = deliveries.make_message(key)
    assert deliveries.function({"Records": [message]}) == {"batchItemFailures": []}
    assert deliveries.take_announced() == []


@pytest.mark.parametrize(
    "body",
    [
        "", "null", "[]", "{}", '{"detail": []}', '{"detail": {"bucket": {"name": 1}, "object": {"key": 2}}}',
        make_body("Object Restored", "k"), make_body("Object Created", "k" * 1025), make_body("Object Created", ""),
    ],
)  # fmt: skip
def test_message_that_is_no_event_is_refused_alone(deliveries: Deliveries, body: str) -> None:
    put(deliveries, "beside a refused one")
    messages: list[dict[str, Any]] = [*deliveries.take_messages(), {"messageId": "odd", "body": body}]
    assert deliveries.function({"Records": messages}) == {"batchItemFailures": [{"itemIdentifier": "odd"}]}
    assert [detail["path"] for detail in deliveries.take_announced()] == ["/files/beside a refused one"]


def test_batch_is_delivered_again_while_the_bucket_does_not_answer(admin: Person, deliveries: Deliveries) -> None:
    put(deliveries, "while the bucket is away")
    messages = deliveries.take_messages()
    bucket = deliveries.bucket
    deliveries.function.refuse = lambda needs: THROTTLED if any(place.startswith(bucket) for _, place in needs) else ""
    with pytest.raises(lambdas.FunctionError):
        deliveries.function({"Records": messages})
    deliveries.function.refuse = None
    assert find(admin, "away") == []
    deliveries.function({"Records": messages})
    assert find(admin, "away") == ["/files/while the bucket is away"]
    assert [detail["path"] for detail in deliveries.take_announced()] == ["/files/while the bucket is away"]


def test_storage_with_a_prefix_shows_the_objects_below_it_alone(admin: Person, deliveries: Deliveries) -> None:
    addition = json.dumps({"bucket": deliveries.bucket, "region": "us-east-1", "root_folder_path": "/part"})
    id = admin.gets("storages/create", mount_path="/partial", driver="S3", addition=addition)["id"]
    put(deliveries, "part/inside.txt")
    put(deliveries, "parted.txt")
    paths = sorted(detail["path"] for detail in deliveries.deliver())
    admin.gets("storages/delete", f"id={id}")
    assert paths == ["/files/part/inside.txt", "/files/parted.txt", "/partial/inside.txt"]


def test_removal_of_an_old_version_is_not_announced(deliveries: Deliveries) -> None:
    message = deliveries.make_message("an old one", "Object Deleted", version="v1")
    assert deliveries.function({"Records": [message]}) == {"batchItemFailures": []}
    assert deliveries.take_announced() == []


def test_changed_names_of_listings_request_a_read_of_the_folder(admin: Person, deliveries: Deliveries) -> None:
    rows = [{"key": "filename_char_mapping", "value": '{"|": "-"}'}]
    admin.raw("settings/save", {"body": json.dumps(rows)})
    put(deliveries, "mapped/a|b/c")
    announced = deliveries.deliver()
    admin.raw("settings/save", {"body": json.dumps([rows[0] | {"value": "{}"}])})
    records = admin.cloud.client("dynamodb").scan(TableName=f"{lambdas.STACK}-index_changes")["Items"]
    reads = [json.loads(row["content"]["S"]) for row in records if row["kind"]["S"] == "read"]
    assert announced == [] and [(row["path"], row["deep"]) for row in reads][-1] == ("/mapped", True)


def test_function_used_every_right_that_is_its_own(admin: Person) -> None:
    used = admin.cloud.get_function("BucketEventsFunction").used
    idle = {
        right
        for right in read_inline("BucketEventsFunction", admin.cloud.refs)
        if not any(covers(right, need) for need in used)
    }
    assert idle == set()
