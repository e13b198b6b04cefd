"""The template fits the code: its routes are the functions' routes, its tables the models', its rights are named."""

from __future__ import annotations

from typing import Any

import pytest

from mangrove.local import docs, template
from tests.contract import generated

WRITES = {"PutItem", "UpdateItem", "DeleteItem"}


def shown(path: str) -> str:
    return path.replace("{path}", template.GREEDY)


def operations() -> dict[tuple[str, str], str]:
    """(method, path) → the function's group, as the functions themselves say."""
    generated.load()
    return {
        (method.upper(), shown(path)): operation["tags"][0]
        for path, methods in docs.document()["paths"].items()
        for method, operation in methods.items()
    }


def test_every_route_of_the_template_is_one_of_its_function_and_none_is_left_out() -> None:
    plain = {
        (spec.method, spec.path): spec.code.rpartition("/")[2]
        for spec in template.routes()
        if not spec.path.startswith("/openlist") and spec.path != template.DEFAULT
    }
    assert plain == operations()


def test_every_route_is_reached_under_the_peer_prefix_too() -> None:
    specs = [spec for spec in template.routes() if spec.path.startswith("/openlist")]
    exact = {(spec.method, spec.path): spec for spec in specs if template.GREEDY not in spec.path}
    greedy = sorted((spec for spec in specs if template.GREEDY in spec.path), key=lambda spec: -len(spec.path))
    for (method, path), group in operations().items():
        wanted = "/openlist" + path
        found = exact.get((method, wanted)) or exact.get(("ANY", wanted))
        found = found or next(
            spec
            for spec in greedy
            if spec.method in (method, "ANY") and wanted.startswith(spec.path.removesuffix(template.GREEDY))
        )
        assert found.code.rpartition("/")[2] == group, (method, path)


def test_tables_are_those_of_the_models(engine: str) -> None:
    from mangrove.records import counters, metas, sessions, settings, sshkeys, storages, unique, users

    models: list[Any] = [
        users.UserRecord, storages.StorageRecord, metas.MetaRecord, settings.SettingRecord, sshkeys.SshKeyRecord,
        sessions.SessionRecord, counters.Counter, unique.Claim,
    ]  # fmt: skip
    wanted = {}
    for model in models:
        key = next(attribute for attribute in model.get_attributes().values() if attribute.is_hash_key)
        wanted[model.Meta.table_name] = (key.attr_name, key.attr_type)
    found = {}
    for table in template.tables("mangrove"):
        (attribute,) = table["AttributeDefinitions"]
        assert table["KeySchema"] == [{"AttributeName": attribute["AttributeName"], "KeyType": "HASH"}]
        found[table["TableName"]] = (attribute["AttributeName"], attribute["AttributeType"])
    assert found == wanted


def statements(function: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        statement
        for policy in function["Properties"].get("Policies", [])
        if "Statement" in policy
        for statement in policy["Statement"]
    ]


FUNCTIONS = dict(template.resources("AWS::Serverless::Function"))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_function_has_a_right_it_does_not_name(name: str) -> None:
    granted = statements(FUNCTIONS[name])
    for _, policy in template.resources("AWS::IAM::ManagedPolicy"):
        granted += policy["Properties"]["PolicyDocument"]["Statement"]
    for statement in granted:
        actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
        assert not any("*" in action for action in actions)
        assert statement["Resource"] != "*"


@pytest.mark.parametrize("name", ["SiteFunction", "DownloadsFunction", "UploadsFunction"])
def test_functions_that_only_read_records_cannot_write_them(name: str) -> None:
    actions = [action for statement in statements(FUNCTIONS[name]) for action in statement["Action"]]
    assert not any(action.removeprefix("dynamodb:") in WRITES for action in actions)


def test_secrets_do_not_stand_in_the_environment() -> None:
    variables = template.document()["Globals"]["Function"]["Environment"]["Variables"]
    assert not any("password" in str(value).lower() for value in variables.values())
    assert template.document()["Parameters"]["AdminPassword"]["NoEcho"] is True
