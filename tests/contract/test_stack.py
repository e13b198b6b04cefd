"""The template as CloudFormation gets it: two stacks live side by side, within AWS's limits, and each has its logs."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from mangrove.standalone import template

SAM = template.ROOT / ".venv-build" / "bin" / "python"
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not SAM.exists(), reason="`make build` installs what transforms the template"),
]

ROUTES, RESOURCES = 290, 480  # AWS takes 300 and 500
ENVIRONMENT_BYTES = 4096
STACK_NAME = "s" * 40  # the longest name of a stack for which the environment of a function is small enough
SUFFIX_BYTES = 14  # of the name that CloudFormation makes of the stack's and the resource's
ARN_BYTES = 75  # of an ARN before the name
PARAMETER_BYTES = 120  # of a parameter; those of `sam local` are empty on AWS
NAMES = {
    "AWS::ApiGatewayV2::Api": "Name", "AWS::Budgets::Budget": "BudgetName", "AWS::CloudWatch::Alarm": "AlarmName",
    "AWS::CloudWatch::Dashboard": "DashboardName",
    "AWS::DynamoDB::Table": "TableName",
    "AWS::Events::EventBus": "Name", "AWS::Events::Rule": "Name",
    "AWS::IAM::ManagedPolicy": "ManagedPolicyName", "AWS::IAM::Role": "RoleName",
    "AWS::Lambda::Function": "FunctionName", "AWS::Lambda::LayerVersion": "LayerName",
    "AWS::Logs::LogGroup": "LogGroupName", "AWS::S3::Bucket": "BucketName", "AWS::SNS::Topic": "TopicName",
    "AWS::SQS::Queue": "QueueName", "AWS::Scheduler::Schedule": "Name", "AWS::SecretsManager::Secret": "Name",
    "AWS::StepFunctions::StateMachine": "StateMachineName",
}  # fmt: skip
NAMELESS = {  # these have a name only within another resource, in their configuration, or none at all
    "AWS::CloudFront::CachePolicy", "AWS::CloudFront::Distribution", "AWS::CloudFront::KeyGroup",
    "AWS::CloudFront::OriginAccessControl", "AWS::CloudFront::PublicKey", "AWS::CloudFront::ResponseHeadersPolicy",
    "AWS::ApiGatewayV2::ApiMapping", "AWS::ApiGatewayV2::DomainName", "AWS::ApiGatewayV2::Stage", "AWS::IAM::Policy",
    "AWS::Lambda::Alias", "AWS::Lambda::EventSourceMapping", "AWS::Lambda::Permission", "AWS::Lambda::Url",
    "AWS::Lambda::Version", "AWS::S3::BucketPolicy", "AWS::SQS::QueuePolicy", "AWS::Transfer::Server",
    "Custom::MangroveSetup",
}  # fmt: skip


def transform(**parameters: str) -> dict[str, Any]:
    parameters_ = [f"{name}={value}" for name, value in ({"Release": "0123"} | parameters).items()]
    command = [SAM, "-m", "deployment.transform", *parameters_]
    done = subprocess.run(command, cwd=template.ROOT, capture_output=True, check=True)
    return dict(json.loads(done.stdout))


@pytest.fixture(scope="module")
def stack() -> dict[str, Any]:
    return transform()


def list_resources(stack: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    return {name: resource for name, resource in stack["Resources"].items() if resource["Type"] == kind}


def render(stack: dict[str, Any], name: str) -> dict[str, str]:
    """The names that people chose for resources of a stack of that name."""
    names = {}
    for resource, properties in stack["Resources"].items():
        value = properties.get("Properties", {}).get(NAMES.get(properties["Type"], ""))
        if value is not None:
            text = value if isinstance(value, str) else str(value.get("Fn::Sub", value))
            names[f"{properties['Type']} {resource}"] = text.replace("${AWS::StackName}", name)
    return names


def test_two_stacks_have_no_name_in_common(stack: dict[str, Any]) -> None:
    assert {first["Type"] for first in stack["Resources"].values()} <= NAMELESS | set(NAMES), (
        "say where it has its name"
    )
    first, other = render(stack, "one"), render(stack, "other")
    assert first, "layers are named after the stack: CloudFormation gives them no name of its own"
    assert not set(first.values()) & set(other.values())


def test_routes_and_resources_are_fewer_than_aws_takes(stack: dict[str, Any]) -> None:
    (api,) = list_resources(stack, "AWS::ApiGatewayV2::Api").values()
    assert 100 < sum(len(methods) for methods in api["Properties"]["Body"]["paths"].values()) <= ROUTES
    assert 200 < len(stack["Resources"]) <= RESOURCES


def test_what_a_function_is_told_fits_into_its_environment(stack: dict[str, Any]) -> None:
    for name, function in list_resources(stack, "AWS::Lambda::Function").items():
        variables = function["Properties"]["Environment"]["Variables"]
        size = sum(len(key) + len(expand(value)) for key, value in variables.items())
        assert size < ENVIRONMENT_BYTES, name


def expand(value: Any) -> str:
    """Return a value as long as it may become."""
    if isinstance(value, str):
        return value
    ((kind, rest),) = value.items()
    if kind == "Fn::If":
        return max(map(expand, rest[1:]), key=len)
    if kind == "Fn::Sub":
        return re.sub(r"\$\{([\w.:]+)}", lambda match: expand({"Ref": match[1]}), rest)
    name = rest if isinstance(rest, str) else rest[0]
    if name in template.load_template()["Parameters"] or kind == "Fn::FindInMap":
        return "" if name.endswith("Endpoint") else "x" * PARAMETER_BYTES
    return "x" * (ARN_BYTES + len(STACK_NAME) + len(name) + SUFFIX_BYTES) if is_arn(name) else make_name(name)


def is_arn(resource: str) -> bool:
    """Return True if `Ref` of a resource is its ARN."""
    kind = template.load_template()["Resources"].get(resource, {}).get("Type", "")
    return kind in ("AWS::SecretsManager::Secret", "AWS::Serverless::StateMachine")


def make_name(resource: str) -> str:
    """Return a name of a resource as CloudFormation makes it."""
    return f"{STACK_NAME}-{resource}{'x' * (SUFFIX_BYTES - 1)}"


def test_every_log_is_kept_for_a_time_and_everything_that_can_has_one(stack: dict[str, Any]) -> None:
    groups = list_resources(stack, "AWS::Logs::LogGroup")
    assert groups and all(group["Properties"]["RetentionInDays"] for group in groups.values())
    used = set()
    for function in list_resources(stack, "AWS::Lambda::Function").values():
        used.add(function["Properties"]["LoggingConfig"]["LogGroup"]["Ref"])
    delivered = set()
    for machine in list_resources(stack, "AWS::StepFunctions::StateMachine").values():
        (place,) = machine["Properties"]["LoggingConfiguration"]["Destinations"]
        delivered.add(place["CloudWatchLogsLogGroup"]["LogGroupArn"]["Fn::GetAtt"][0])
    for stage in list_resources(stack, "AWS::ApiGatewayV2::Stage").values():
        delivered.add(stage["Properties"]["AccessLogSettings"]["DestinationArn"]["Fn::GetAtt"][0])
        json.loads(stage["Properties"]["AccessLogSettings"]["Format"])
    assert used | delivered == set(groups)
    for name in delivered:  # the policy of this prefix does not grow with each log
        group_name = groups[name]["Properties"]["LogGroupName"]["Fn::Sub"]
        assert group_name.startswith("/aws/vendedlogs/") and group_name.endswith("/${AWS::StackName}")


def list_statements(stack: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, resource in stack["Resources"].items():
        properties = resource.get("Properties", {})
        documents = [properties["PolicyDocument"]] if "PolicyDocument" in properties else []
        policies = [policy.get("Fn::If", (None, policy))[1] for policy in properties.get("Policies", ())]
        documents += [policy["PolicyDocument"] for policy in policies]
        for document in documents:
            yield from ((name, statement.get("Fn::If", (None, statement))[1]) for statement in document["Statement"])


def test_no_role_may_more_than_it_names(stack: dict[str, Any]) -> None:
    wide = set()
    for name, statement in list_statements(stack):
        if statement["Effect"] == "Deny":
            continue
        assert "*" not in str(statement["Action"]), name
        if statement["Resource"] == "*" or "*" in statement["Resource"]:
            wide.add(name)
    assert wide == {"DeliverLogs", "WriteTraces"}, "logs of machines and traces know no resources"
    assert stack["Resources"]["WriteTraces"]["Condition"] == "HasTracing"
    attached = {
        policy if isinstance(policy, str) else policy.get("Ref") or policy["Fn::If"][1]["Ref"]
        for role in list_resources(stack, "AWS::IAM::Role").values()
        for policy in role["Properties"].get("ManagedPolicyArns", ())
    }
    assert {policy.rpartition("/")[2] for policy in attached} == {
        "AWSLambdaBasicExecutionRole", "ReadConfiguration", "ReadStorages", "ReadSecrets", "ReadTokenKey", "ReadUsers",
        "DeliverLogs", "WriteTraces", "KeepRemoved", "ListTrash", "ChangeTrash",
    }  # fmt: skip


def test_what_people_own_outlives_the_stack_but_not_a_create_that_failed(stack: dict[str, Any]) -> None:
    retained = {
        name for name, resource in stack["Resources"].items() if resource.get("UpdateReplacePolicy") == "Retain"
    }
    assert {"Files", "MasterKey", "IntegrityKey", "TokenKey", "Users", "Tasks"} <= retained
    versions = list_resources(stack, "AWS::Lambda::Version")
    policies = {
        name: resource.get("DeletionPolicy") for name, resource in stack["Resources"].items() if name not in versions
    }
    renamed = {"AccessLog"}  # stays under its former name until its lines are too old
    assert {name for name, policy in policies.items() if policy == "RetainExceptOnCreate"} == retained - renamed
    assert "Retain" not in policies.values()


def test_every_bucket_that_goes_with_the_stack_is_emptied_before(stack: dict[str, Any]) -> None:
    from functions.workers.setup.app import EMPTIED

    buckets = list_resources(stack, "AWS::S3::Bucket")
    variables = stack["Resources"]["SetupFunction"]["Properties"]["Environment"]["Variables"]
    gone = {name for name, bucket in buckets.items() if bucket["DeletionPolicy"] == "Delete"}
    assert {variables[variable]["Ref"] for variable in EMPTIED} == gone


def test_a_failing_set_up_ends_and_another_release_runs_it_again(stack: dict[str, Any]) -> None:
    setup, function = (stack["Resources"][name]["Properties"] for name in ("Setup", "SetupFunction"))
    assert function["Timeout"] < int(setup["ServiceTimeout"]) <= 3600
    assert setup["Release"] in ({"Ref": "Release"}, "0123")
    for name in ("SetupFunction", "SweepFunction", "ReindexFunction"):
        assert stack["Resources"][name]["Properties"]["DeadLetterConfig"]["TargetArn"]["Fn::GetAtt"][0] == "DeadLetters"
    for schedule in list_resources(stack, "AWS::Scheduler::Schedule").values():
        assert schedule["Properties"]["Target"]["DeadLetterConfig"]["Arn"]["Fn::GetAtt"][0] == "DeadLetters"


def test_requests_reach_what_was_published_with_the_release(stack: dict[str, Any]) -> None:
    aliases = list_resources(stack, "AWS::Lambda::Alias")
    (api,) = list_resources(stack, "AWS::ApiGatewayV2::Api").values()
    called = {
        method["x-amazon-apigateway-integration"]["uri"]["Fn::Sub"].rpartition("functions/${")[2].partition("}")[0]
        for methods in api["Properties"]["Body"]["paths"].values()
        for method in methods.values()
    }
    assert called == set(aliases)
    for alias in aliases.values():
        version = alias["Properties"]["FunctionVersion"]["Fn::GetAtt"][0]
        assert version.endswith("Version0123"), (
            "a version is named after the release, not after the function's own code"
        )
        assert stack["Resources"][version]["DeletionPolicy"] == "Retain", "`deployment.versions` deletes old ones"


def test_canary_moves_every_alias_by_a_deployment_that_an_alarm_stops() -> None:
    stack = transform(Canary="true", AlarmAddress="operator@example.org")
    groups = list_resources(stack, "AWS::CodeDeploy::DeploymentGroup")
    aliases = list_resources(stack, "AWS::Lambda::Alias")
    used = {
        alias["UpdatePolicy"]["CodeDeployLambdaAliasUpdate"]["DeploymentGroupName"]["Ref"] for alias in aliases.values()
    }
    assert used == set(groups) and len(groups) == len(aliases)
    for group in groups.values():
        assert group["Properties"]["AlarmConfiguration"]["Alarms"][0]["Name"]["Fn::If"][1] == {"Ref": "CanaryAlarm"}
        assert group["Properties"]["AutoRollbackConfiguration"]["Enabled"] is True
        assert "DEPLOYMENT_STOP_ON_ALARM" in group["Properties"]["AutoRollbackConfiguration"]["Events"]
        assert "Canary10Percent5Minutes" in str(group["Properties"]["DeploymentConfigName"])


def test_every_alarm_tells_somebody_and_there_is_none_without_an_address(stack: dict[str, Any]) -> None:
    alarms = list_resources(stack, "AWS::CloudWatch::Alarm")
    assert {resource["Properties"].get("MetricName", "Executions") for resource in alarms.values()} >= {
        "5xx", "Throttles", "Executions", "Invocations", "ApproximateNumberOfMessagesVisible", "OldestTaskAge",
    }  # fmt: skip
    for alarm in alarms.values():
        assert alarm["Condition"] == "HasAlarms"
        assert alarm["Properties"]["AlarmActions"] == [{"Ref": "AlarmTopic"}]
    watched = {metric["MetricStat"]["Metric"]["Dimensions"][0]["Value"]["Ref"] for alarm in alarms.values()
               for metric in alarm["Properties"].get("Metrics", ()) if "MetricStat" in metric}  # fmt: skip
    assert watched == set(list_resources(stack, "AWS::StepFunctions::StateMachine"))


def test_the_dashboard_is_json(stack: dict[str, Any]) -> None:
    (dashboard,) = list_resources(stack, "AWS::CloudWatch::Dashboard").values()
    assert json.loads(dashboard["Properties"]["DashboardBody"]["Fn::Sub"])["widgets"]


def test_browsers_may_put_parts_into_the_files_and_read_their_tags(stack: dict[str, Any]) -> None:
    (rule,) = stack["Resources"]["Files"]["Properties"]["CorsConfiguration"]["CorsRules"]
    assert {"GET", "HEAD", "PUT"} == set(rule["AllowedMethods"]) and rule["ExposedHeaders"] == ["ETag"]


def test_transfer_family_exists_only_on_request(stack: dict[str, Any]) -> None:
    assert template.load_template()["Parameters"]["TransferFamily"]["Default"] == "off"
    resources = stack["Resources"]
    own = {name: entry for name, entry in resources.items() if name.startswith("Transfer") and "Machine" not in name}
    conditional = {name for name, entry in own.items() if entry.get("Condition") == "HasTransferFamily"}
    assert {"TransferServer", "TransferIdentity", "TransferIdentityRole", "TransferIdentityPermission"} <= conditional
    assert "TransferRole" in conditional
    server = resources["TransferServer"]["Properties"]
    assert server["IdentityProviderDetails"]["Function"] == {"Fn::GetAtt": ["TransferIdentity", "Arn"]}
    permission = resources["TransferIdentityPermission"]["Properties"]
    assert permission["SourceArn"] == {"Fn::GetAtt": ["TransferServer", "Arn"]}
    (rights,) = resources["TransferRole"]["Properties"]["Policies"]
    places = [entry["Resource"] for entry in rights["PolicyDocument"]["Statement"]]
    assert places == [{"Fn::GetAtt": ["Files", "Arn"]}, {"Fn::Sub": "${Files.Arn}/*"}]
