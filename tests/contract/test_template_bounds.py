"""Bounds on load and cost in the template: rates, reserved instances, a budget; and the protection of data."""

from __future__ import annotations

import json

from deployment.generate import deployer
from mangrove.standalone import template

MAX_POLICY_LETTERS = 10_240  # of the inline policies of a role, without white space
FUNCTIONS = dict(template.iter_resources("AWS::Serverless::Function"))
MAX_RESERVED = 900  # instances: an account has 1,000, of which Lambda keeps 100 unreserved
RESERVED = "Concurrency"


def list_reservations() -> dict[str, str]:
    """Return for each function with reserved instances the parameter that has their number."""
    reservations = {}
    for name, function in FUNCTIONS.items():
        if "ReservedConcurrentExecutions" in function["Properties"]:
            condition, value, without = function["Properties"]["ReservedConcurrentExecutions"]["Fn::If"]
            assert (condition, without) == (f"Has{value['Ref']}", {"Ref": "AWS::NoValue"}), name
            reservations[name] = value["Ref"]
    return reservations


def test_largest_reservations_fit_into_an_account() -> None:
    loaded = template.load_template()
    parameters = {name: body for name, body in loaded["Parameters"].items() if name.endswith(RESERVED)}
    reservations = list_reservations()
    assert set(reservations.values()) == set(parameters)
    assert {body["Default"] for body in parameters.values()} == {0}
    assert sum(parameters[parameter]["MaxValue"] for parameter in reservations.values()) <= MAX_RESERVED
    for name in parameters:
        assert loaded["Conditions"][f"Has{name}"] == {"Fn::Not": [{"Fn::Equals": [{"Ref": name}, 0]}]}


def test_each_group_of_endpoints_has_reserved_instances() -> None:
    groups = {name for name, function in FUNCTIONS.items() if "functions/api/" in function["Properties"]["CodeUri"]}
    reservations = list_reservations()
    assert groups == {name for name, parameter in reservations.items() if parameter != "TaskConcurrency"}
    assert {name for name in reservations if reservations[name] == "TaskConcurrency"} == {
        "TransferMove", "TransferPart", "RemoveRemove", "DownloadPoll", "DecompressExtract", "CompressPack",
        "IndexPart",
    }  # fmt: skip


def test_rates_of_requests_are_parameters_with_defaults() -> None:
    loaded = template.load_template()
    rates = ("RequestsPerSecond", "RequestBurst", "SignInsPerSecond")
    assert [loaded["Parameters"][name]["Default"] for name in rates] == [200, 400, 20]
    assert loaded["Globals"]["HttpApi"]["DefaultRouteSettings"] == {
        "ThrottlingRateLimit": {"Ref": "RequestsPerSecond"},
        "ThrottlingBurstLimit": {"Ref": "RequestBurst"},
    }


def test_budget_is_optional_and_sends_mails_to_the_address_of_alarms() -> None:
    loaded = template.load_template()
    assert loaded["Parameters"]["MonthlyBudget"]["Default"] == 0
    budget = loaded["Resources"]["Budget"]
    assert budget["Condition"] == "HasBudget"
    has_amount = {"Fn::Not": [{"Fn::Equals": [{"Ref": "MonthlyBudget"}, 0]}]}
    assert loaded["Conditions"]["HasBudget"] == {"Fn::And": [has_amount, {"Condition": "HasAlarms"}]}
    assert budget["Properties"]["Budget"]["BudgetLimit"] == {"Amount": {"Ref": "MonthlyBudget"}, "Unit": "USD"}
    notices = budget["Properties"]["NotificationsWithSubscribers"]
    assert [notice["Notification"]["Threshold"] for notice in notices] == [80, 100]
    assert all(notice["Subscribers"][0]["Address"] == {"Ref": "AlarmAddress"} for notice in notices)


def test_protection_is_on_by_default_and_keeps_replaced_objects() -> None:
    """`test_rights.py` reads what the set-up makes of the tables."""
    loaded = template.load_template()
    assert loaded["Parameters"]["Protection"]["Default"] == "on"
    assert loaded["Conditions"]["IsProtected"] == {"Fn::Equals": [{"Ref": "Protection"}, "on"]}
    files = loaded["Resources"]["Files"]["Properties"]
    assert files["VersioningConfiguration"] == {"Status": {"Fn::If": ["IsProtected", "Enabled", "Suspended"]}}
    rules = {rule["Id"]: rule for rule in files["LifecycleConfiguration"]["Rules"]}
    assert rules["replaced-objects"]["Status"] == "Enabled"
    assert rules["replaced-objects"]["NoncurrentVersionExpiration"] == {"NoncurrentDays": 30}
    setup = loaded["Resources"]["SetupFunction"]["Properties"]["Environment"]["Variables"]
    assert setup["MANGROVE_PROTECTION"] == {"Ref": "Protection"}


def test_entrance_of_webdav_is_optional_and_reaches_what_was_published() -> None:
    loaded = template.load_template()
    assert loaded["Parameters"]["WebDavEntrance"]["Default"] == "off"
    names = ("DavUrl", "DavUrlPermission", "DavUrlInvokePermission")
    url, permission, invocation = (loaded["Resources"][name] for name in names)
    assert {part["Condition"] for part in (url, permission, invocation)} == {"HasWebDavEntrance"}
    alias = {"Ref": "DavFunction.Alias"}
    assert url["Properties"] == {"TargetFunctionArn": alias, "AuthType": "NONE"}
    assert permission["Properties"] == {
        "Action": "lambda:InvokeFunctionUrl", "FunctionName": alias, "Principal": "*", "FunctionUrlAuthType": "NONE",
    }  # fmt: skip
    assert invocation["Properties"] == {
        "Action": "lambda:InvokeFunction", "FunctionName": alias, "Principal": "*", "InvokedViaFunctionUrl": True,
    }  # fmt: skip
    assert loaded["Outputs"]["WebDav"]["Value"] == {"Fn::Sub": "${DavUrl.FunctionUrl}dav"}


def test_rights_of_a_deployer_fit_into_a_role() -> None:
    document = json.loads((template.ROOT / deployer.FILE).read_text())
    assert len(json.dumps(document, separators=(",", ":"))) < MAX_POLICY_LETTERS


def test_outputs_name_the_target_of_an_own_domain() -> None:
    outputs = template.load_template()["Outputs"]
    for name, attribute in (("DomainTarget", "RegionalDomainName"), ("DomainTargetZone", "RegionalHostedZoneId")):
        assert outputs[name]["Condition"] == "HasDomain"
        assert outputs[name]["Value"] == {"Fn::GetAtt": f"Domain.{attribute}"}
