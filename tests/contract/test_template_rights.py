"""The template gives each function the rights and keys that it needs, and no more."""

from __future__ import annotations

import pytest

from mangrove.standalone import template
from tests.contract.test_template import FUNCTIONS, get_kind, list_actions, list_resources, list_statements

WRITES = {"PutItem", "UpdateItem", "DeleteItem"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_knows_exactly_the_machines_that_it_may_start(name: str) -> None:
    variables = FUNCTIONS[name]["Properties"].get("Environment", {}).get("Variables", {})
    known = {key: value for key, value in variables.items() if key.startswith("MANGROVE_MACHINE_")}
    assert known == {f"MANGROVE_MACHINE_{get_kind(value['Ref']).upper()}": value for value in known.values()}
    started = [
        statement
        for statement in list_statements(FUNCTIONS[name])
        if any(action.startswith("states:") for action in list_actions(statement))
    ]
    assert {action for statement in started for action in list_actions(statement)} <= {"states:StartExecution"}
    assert sorted(resource["Ref"] for statement in started for resource in list_resources(statement)) == sorted(
        value["Ref"] for value in known.values()
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_function_has_a_right_it_does_not_name(name: str) -> None:
    granted = list_statements(FUNCTIONS[name])
    managed = dict(template.iter_resources("AWS::IAM::ManagedPolicy"))
    for policy in FUNCTIONS[name]["Properties"]["Policies"]:
        if "Ref" in policy:
            granted += managed[policy["Ref"]]["Properties"]["PolicyDocument"]["Statement"]
    for statement in granted:
        assert not any("*" in action for action in list_actions(statement))
        assert "*" not in list_resources(statement)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("SiteFunction", []),
        ("DownloadsFunction", ["Counters.Arn"]),
        ("UploadsFunction", ["Counters.Arn", "TaskRecords.Arn", "Uploads.Arn"]),
    ],
)
def test_functions_that_only_read_the_configuration_cannot_write_it(name: str, written: list[str]) -> None:
    writable = {
        resource["Fn::GetAtt"]
        for statement in list_statements(FUNCTIONS[name])
        if any(action.removeprefix("dynamodb:") in WRITES for action in list_actions(statement))
        for resource in list_resources(statement)
    }
    assert sorted(writable) == written


SIGNED_IN = {
    "AuthFunction", "UsersFunction", "MetasFunction", "SettingsFunction", "StoragesFunction", "FilesFunction",
    "SharesFunction", "UploadsFunction", "McpFunction", "TasksFunction", "SearchFunction",
}  # fmt: skip


WITHOUT_SECRETS = {"SiteFunction"}
WITHOUT_STORAGES = {"AuthFunction", "UsersFunction", "MetasFunction", "TaskStreamFunction"}
MAX_MANAGED_POLICIES = 10  # of a role; SAM adds two


def find_readers(key: str) -> set[str]:
    """Return the functions that may read a key."""
    managed = dict(template.iter_resources("AWS::IAM::ManagedPolicy"))
    readers = set()
    for name, function in FUNCTIONS.items():
        statements = list_statements(function)
        for policy in function["Properties"]["Policies"]:
            if "Ref" in policy:
                statements += managed[policy["Ref"]]["Properties"]["PolicyDocument"]["Statement"]
        reads = [rule for rule in statements if "secretsmanager:GetSecretValue" in list_actions(rule)]
        if any({"Ref": key} in list_resources(rule) for rule in reads):
            readers.add(name)
    return readers


def test_each_key_is_read_by_the_functions_that_need_it() -> None:
    assert find_readers("IntegrityKey") == {"SiteFunction", "SetupFunction"}, "the others derive it from the master key"
    assert find_readers("TokenKey") == SIGNED_IN | {"SetupFunction"}
    assert find_readers("MasterKey") == set(FUNCTIONS) - WITHOUT_SECRETS
    assert find_readers("AdminSecret") == {"SetupFunction"}


def test_storages_are_scanned_by_the_functions_that_work_on_them() -> None:
    for name, function in FUNCTIONS.items():
        part = function["Properties"].get("Environment", {}).get("Variables", {}).get("MANGROVE_CONFIGURATION", "all")
        policies = [policy["Ref"] for policy in function["Properties"]["Policies"] if "Ref" in policy]
        assert ("ReadStorages" in policies) is (part == "all"), name
        assert (part == "public") is (name in WITHOUT_SECRETS), name
        assert (part == "without storages") is (name in WITHOUT_STORAGES), name
        assert len(policies) + 2 <= MAX_MANAGED_POLICIES, name


def test_secrets_do_not_stand_in_the_environment() -> None:
    variables = dict(template.load_template()["Globals"]["Function"]["Environment"]["Variables"])
    del variables["MANGROVE_TABLES"]  # names of tables, one of them of application passwords
    assert not any("password" in str(value).lower() for value in variables.values())
    assert template.load_template()["Parameters"]["AdminPassword"]["NoEcho"] is True


def test_role_of_transfer_family_is_for_servers_of_the_account_alone() -> None:
    (statement,) = template.load_template()["Resources"]["TransferRole"]["Properties"]["AssumeRolePolicyDocument"][
        "Statement"
    ]
    assert statement["Condition"] == {
        "StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}},
        "ArnLike": {
            "aws:SourceArn": {"Fn::Sub": "arn:${AWS::Partition}:transfer:${AWS::Region}:${AWS::AccountId}:server/*"}
        },
    }


def test_secret_of_the_proxies_is_a_hidden_parameter() -> None:
    parameter = template.load_template()["Parameters"]["ProxySecret"]
    assert (parameter["NoEcho"], parameter["Default"]) == (True, "")
    variables = template.load_template()["Globals"]["Function"]["Environment"]["Variables"]
    assert variables["MANGROVE_PROXY_SECRET"] == {"Ref": "ProxySecret"}
