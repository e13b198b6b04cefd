"""Names that are made to be taken for another user's."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.contract.api.accounts import People, get_data, get_refusal, stranger
from tests.support.service import Client, Service

CONFUSABLE_REFUSAL = (400, "username looks like that of another user")
INVISIBLE_CHARACTERS_REFUSAL = (400, "username begins or ends with a blank, or has characters that cannot be seen")
MIXED_SCRIPTS_REFUSAL = (400, "username mixes scripts")


@pytest.fixture
def accounts(service: Service, admin: Client) -> Iterator[People]:
    made = People(service, admin)
    yield made
    made.close()


def test_look_alike_user_names_are_refused_at_creation_and_at_a_rename(admin: Client, accounts: People) -> None:
    person = accounts.new(username=f"peace {uuid4().hex}")
    other = accounts.new()
    row = other.row(admin)
    for name, refusal in (
        (f"{person.name} ", INVISIBLE_CHARACTERS_REFUSAL),
        (person.name.replace("peace", "pe\u200bace"), INVISIBLE_CHARACTERS_REFUSAL),
        (person.name.replace("peace", "p\u0435ace"), MIXED_SCRIPTS_REFUSAL),
        (person.name.replace("peace", "\uff50eace"), CONFUSABLE_REFUSAL),
        (person.name.replace("peace", "Peace"), CONFUSABLE_REFUSAL),
    ):
        assert get_refusal(admin.post("/api/admin/user/create", username=name)) == refusal
        assert get_refusal(admin.post("/api/admin/user/update", **(row | {"username": name}))) == refusal
        assert get_refusal(other.client.post("/api/me/update", username=name)) == refusal
    assert other.row(admin) == row


def test_a_name_in_another_script_is_free_as_long_as_it_looks_like_nobodys(
    service: Service, admin: Client, accounts: People
) -> None:
    accounts.new(username="\u041f\u0430\u0432\u0435\u043b", password="secret")
    accounts.new(username="cepa", password="secret")
    refused = admin.post("/api/admin/user/create", username="\u0441\u0435\u0440\u0430")
    assert get_refusal(refused) == CONFUSABLE_REFUSAL
    body = {"username": "\u041f\u0430\u0432\u0435\u043b", "password": "secret"}
    assert get_data(stranger(service).post("/api/auth/login", **body))["token"]
