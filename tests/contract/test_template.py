"""The template fits the code: its routes are the functions' routes, its tables the models', its rights are named."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from deployment.generate import api
from mangrove.standalone import template

MAX_ROUTES = 290  # AWS takes 300
PAGE = {"/", "/@assets/{proxy+}", "/@s/{proxy+}"}  # for people, who need no dialect
DAV = {"/dav", "/dav/", "/dav/{proxy+}"}  # its verbs are more than a template can name


def to_template_path(path: str) -> str:
    return path.replace("{path}", template.GREEDY)


def list_operations() -> dict[tuple[str, str], str]:
    """(method, path) → the function's group, as the functions themselves say."""
    return {
        (method, to_template_path(route.path_format)): group for group, method, route in api.iter_routes()
    }  # fmt: skip


def test_template_routes_match_those_of_functions() -> None:
    plain = {
        (spec.method, spec.path): spec.code.rpartition("/")[2]
        for spec in template.read_routes()
        if not spec.path.startswith("/openlist") and spec.path != template.DEFAULT
    }
    verbs = {method for (method, _), group in list_operations().items() if group == "dav"}
    any_verb = {(method, path): group for (word, path), group in plain.items() if word == "ANY" for method in verbs}
    assert set(any_verb.values()) == {"dav"} and {path for _, path in any_verb} == DAV
    plain = {route: group for route, group in plain.items() if route[0] != "ANY"} | any_verb
    assert plain == list_operations() | {(method, "/dav/"): "dav" for method in verbs}


def test_there_are_fewer_routes_than_an_http_api_takes() -> None:
    assert len(template.read_routes()) <= MAX_ROUTES


def test_every_table_is_named_to_the_functions_and_by_nobody_else() -> None:
    tables = dict(template.iter_resources("AWS::DynamoDB::Table"))
    assert set(template.read_kinds()) == set(tables) - {"Tasks"}, "those of 0.3.0 are for the set-up alone"
    assert not any("TableName" in table["Properties"] for table in tables.values())


def test_every_route_is_reached_under_the_peer_prefix_too() -> None:
    specs = [spec for spec in template.read_routes() if spec.path.startswith("/openlist")]
    exact = {(spec.method, spec.path): spec for spec in specs if template.GREEDY not in spec.path}
    greedy = sorted((spec for spec in specs if template.GREEDY in spec.path), key=lambda spec: -len(spec.path))
    for (method, path), group in list_operations().items():
        if path in PAGE:
            continue
        peer_path = "/openlist" + path
        route = exact.get((method, peer_path)) or exact.get(("ANY", peer_path))
        route = route or next(
            spec
            for spec in greedy
            if spec.method in (method, "ANY") and peer_path.startswith(spec.path.removesuffix(template.GREEDY))
        )
        assert route.code.rpartition("/")[2] == group, (method, path)


def test_tables_are_those_of_the_models(engine: str) -> None:
    from mangrove import records
    from mangrove.records.store.base import Record

    for module in pkgutil.iter_modules(records.__path__):
        importlib.import_module(f"mangrove.records.{module.name}")
    models = {model.Meta.table_name: model._get_schema() for model in find_tables(Record)}
    tables = {table["TableName"]: table for table in template.read_tables("mangrove")}
    assert {name: get_keys(table, TEMPLATE_ATTRIBUTES) for name, table in tables.items()} == {
        name: get_keys(model, RECORD_ATTRIBUTES) for name, model in models.items()
    }
    assert {name: get_indexes(table, TEMPLATE_ATTRIBUTES) for name, table in tables.items()} == {
        name: get_indexes(model, RECORD_ATTRIBUTES) for name, model in models.items()
    }


TEMPLATE_ATTRIBUTES = ("AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes", "IndexName", "Projection")
RECORD_ATTRIBUTES = ("attribute_definitions", "key_schema", "global_secondary_indexes", "index_name", "projection")


def find_tables(record: Any) -> Iterator[Any]:
    """Every kind of record that has a table of its own."""
    if hasattr(record, "Meta"):
        yield record
    for subclass in record.__subclasses__():
        yield from find_tables(subclass)


def get_keys(table: Mapping[str, Any], words: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """The types of the attributes that are in a key, and the part that each has in the table's own."""
    attributes, schema, more, *_ = words
    defined = [key for resource in [table, *table.get(more, ())] for key in resource.get(attributes, ())]
    types = {key["AttributeName"]: key["AttributeType"] for key in defined}
    return types, {key["AttributeName"]: key["KeyType"] for key in table[schema]}


def get_indexes(table: Mapping[str, Any], words: Sequence[str]) -> dict[str, tuple[dict[str, str], str, set[str]]]:
    """Name → key, kind of projection and what is projected."""
    _, schema, more, name, projection = words
    return {
        index[name]: (
            {key["AttributeName"]: key["KeyType"] for key in index[schema]},
            index[projection]["ProjectionType"],
            set(index[projection].get("NonKeyAttributes") or ()),
        )
        for index in table.get(more, ())
    }


def get_kind(machine: str) -> str:
    """The name of a machine in `state_machines/`."""
    return str(MACHINES[machine]["Properties"]["DefinitionUri"]).split("/")[1].removesuffix(".asl.json")


def find_worker_states(machine: str) -> set[str]:
    """The states that a worker does the work of."""
    return {name for name, state in read_states(machine).items() if state["Type"] == "Task"}


def read_states(machine: str) -> dict[str, Any]:
    """The states of a machine, also those in a Map."""
    text = (template.ROOT / MACHINES[machine]["Properties"]["DefinitionUri"]).read_text()
    states: dict[str, Any] = json.loads(text)["States"]
    inner = [state["ItemProcessor"]["States"] for state in states.values() if state["Type"] == "Map"]
    return {name: state for level in (states, *inner) for name, state in level.items()}


MACHINES = dict(template.iter_resources("AWS::Serverless::StateMachine"))


@pytest.mark.parametrize("machine", MACHINES)
def test_state_has_same_name_in_machine_file_and_resource(machine: str) -> None:
    name = get_kind(machine)
    assert machine == f"{name.capitalize()}Machine"
    for state in find_worker_states(machine):
        assert read_states(machine)[state]["Resource"] == f"${{{state}}}"
        assert read_states(machine)[state]["Retry"], "`make generate` fills in the rules of a block that is there"
        worker = FUNCTIONS[f"{name.capitalize()}{state}"]["Properties"]
        assert (worker["CodeUri"], worker["Handler"]) == (f"functions/workers/{name}/", f"{state.lower()}.handler")
    folder = template.ROOT / "functions" / "workers" / name
    assert {file.stem for file in folder.glob("*.py")} == {state.lower() for state in find_worker_states(machine)}
    substitutions = {state: {"Fn::GetAtt": f"{name.capitalize()}{state}.Arn"} for state in find_worker_states(machine)}
    assert MACHINES[machine]["Properties"]["DefinitionSubstitutions"] == substitutions


@pytest.mark.parametrize("machine", MACHINES)
def test_a_machine_may_call_its_own_workers_and_nothing_else(machine: str) -> None:
    (statement,) = list_statements(MACHINES[machine])
    workers = [{"Fn::GetAtt": f"{get_kind(machine).capitalize()}{state}.Arn"} for state in find_worker_states(machine)]
    assert (statement["Effect"], list_actions(statement)) == ("Allow", ["lambda:InvokeFunction"])
    assert sorted(map(str, list_resources(statement))) == sorted(map(str, workers))


def test_a_machine_that_shares_work_may_start_itself_and_no_other() -> None:
    sharing = [name for name in MACHINES if any(state["Type"] == "Map" for state in read_states(name).values())]
    policies = [resource["Properties"] for _, resource in template.iter_resources("AWS::IAM::Policy")]
    assert len(policies) == len(sharing)
    for machine, policy in zip(sorted(sharing), sorted(policies, key=lambda policy: str(policy["Roles"])), strict=True):
        start, follow = policy["PolicyDocument"]["Statement"]
        assert policy["Roles"] == [{"Ref": f"{machine}Role"}]
        assert (list_actions(start), list_resources(start)) == (["states:StartExecution"], [{"Ref": machine}])
        assert list_actions(follow) == ["states:DescribeExecution", "states:StopExecution"]
        ends = [str(statement["Fn::Sub"]).rpartition(":execution:")[2] for statement in list_resources(follow)]
        assert ends == [f"${{{machine}.Name}}:*", f"${{{machine}.Name}}/*"]


def test_every_worker_is_a_state_of_a_machine_or_runs_by_itself() -> None:
    properties = {name: function["Properties"] for name, function in FUNCTIONS.items()}
    workers = {name for name, entry in properties.items() if entry["CodeUri"].startswith("functions/workers/")}
    of_machines = {
        f"{get_kind(machine).capitalize()}{state}" for machine in MACHINES for state in find_worker_states(machine)
    }
    alone = {name for name in workers if "Handler" not in properties[name]}
    assert workers == of_machines | alone
    assert not of_machines & alone
    modules = {str(file.relative_to(template.ROOT)) for file in (template.ROOT / "functions").rglob("*.py")}
    assert modules == {
        f"{entry['CodeUri']}{entry.get('Handler', 'app.handler').partition('.')[0]}.py" for entry in properties.values()
    }


def list_statements(function: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        statement
        for policy in function["Properties"].get("Policies", [])
        if "Statement" in policy
        for statement in policy["Statement"]
    ]


FUNCTIONS = dict(template.iter_resources("AWS::Serverless::Function"))


def list_actions(statement: Mapping[str, Any]) -> list[str]:
    return statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]


def list_resources(statement: Mapping[str, Any]) -> list[Any]:
    """The resources of a statement."""
    return statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]]


def test_functions_get_new_code_after_the_set_up_alone() -> None:
    waiting = {name: body.get("DependsOn") for name, body in template.iter_resources("AWS::Serverless::Function")}
    assert waiting.pop("SetupFunction") is None
    assert set(waiting.values()) == {"Setup"}


def test_buckets_refuse_requests_without_tls() -> None:
    policies = dict(template.iter_resources("AWS::S3::BucketPolicy"))
    buckets = {name for name, _ in template.iter_resources("AWS::S3::Bucket")}
    assert {policy["Properties"]["Bucket"]["Ref"] for policy in policies.values()} == buckets
    for policy in policies.values():
        statement, *others = policy["Properties"]["PolicyDocument"]["Statement"]
        is_read_by_cloudfront = policy["Properties"]["Bucket"]["Ref"] in ("Files", "Staging")
        assert len(others) == is_read_by_cloudfront, "a client has links to these alone"
        assert (statement["Effect"], statement["Action"], statement["Principal"]) == ("Deny", "s3:*", "*")
        assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_tables_that_people_own_are_the_protected_ones() -> None:
    (setup,) = (body for name, body in template.iter_resources("AWS::Serverless::Function") if name == "SetupFunction")
    variables = setup["Properties"]["Environment"]["Variables"]
    assert variables["MANGROVE_OLD_TASKS"] == {"Ref": "Tasks"}
    resources = {kind: name for name, kind in template.read_kinds().items()}
    names = {resources[kind] for kind in variables["MANGROVE_PROTECTED_TABLES"].split(",")} | {"Tasks"}
    owned = {
        name
        for name, table in template.iter_resources("AWS::DynamoDB::Table")
        if table.get("DeletionPolicy") == "RetainExceptOnCreate"
    }
    assert names == owned


def test_rules_refuse_parameters_that_need_another() -> None:
    rules = template.load_template()["Rules"]
    conditions = {name: rule["RuleCondition"] for name, rule in rules.items()}
    assert conditions == {
        "DomainHasCertificate": {"Fn::Not": [{"Fn::Equals": [{"Ref": "DomainName"}, ""]}]},
        "CanaryHasAddress": {"Fn::Equals": [{"Ref": "Canary"}, "true"]},
        "BudgetHasAddress": {"Fn::Not": [{"Fn::Equals": [{"Ref": "MonthlyBudget"}, 0]}]},
        "WebDavEntranceHasBound": {"Fn::Equals": [{"Ref": "WebDavEntrance"}, "on"]},
    }
    asserted = {name: rule["Assertions"][0]["Assert"]["Fn::Not"][0]["Fn::Equals"] for name, rule in rules.items()}
    assert asserted == {
        "DomainHasCertificate": [{"Ref": "CertificateArn"}, ""],
        "CanaryHasAddress": [{"Ref": "AlarmAddress"}, ""],
        "BudgetHasAddress": [{"Ref": "AlarmAddress"}, ""],
        "WebDavEntranceHasBound": [{"Ref": "WebDavConcurrency"}, 0],
    }


def test_sign_ins_have_a_lower_rate_than_other_requests() -> None:
    routes = template.load_template()["Globals"]["HttpApi"]["RouteSettings"]
    rate = {"Ref": "SignInsPerSecond"}
    assert all(limits["ThrottlingRateLimit"] == rate for limits in routes.values())
    known = {f"{spec.method} {spec.path}" for spec in template.read_routes()}
    assert set(routes) <= known
    sign_ins = {"/api/auth/login", "/api/auth/login/hash", "/api/auth/login/ldap", "/api/authn/webauthn_finish_login"}
    for path in sign_ins:
        assert f"POST {path}" in routes, "neither by its own path"
        assert f"ANY /openlist{path[: path.index('/', 5)]}/{template.GREEDY}" in routes, "nor under the peer prefix"


def test_stream_of_tasks_carries_new_records_and_released_leases() -> None:
    """Filters are compared as texts: a released lease is a negative number."""
    resources = template.load_template()["Resources"]
    assert resources["TaskRecords"]["Properties"]["StreamSpecification"] == {"StreamViewType": "NEW_AND_OLD_IMAGES"}
    mapping = resources["TaskStream"]["Properties"]
    patterns = [json.loads(entry["Pattern"]) for entry in mapping["FilterCriteria"]["Filters"]]
    negative = {"N": [{"prefix": "-"}]}
    assert patterns == [
        {"eventName": ["INSERT"]},
        {
            "eventName": ["MODIFY"],
            "dynamodb": {
                "NewImage": {"until": negative},
                "OldImage": {"until": {"N": [{"anything-but": {"prefix": "-"}}]}},
            },
        },
    ]
    assert mapping["EventSourceArn"] == {"Fn::GetAtt": "TaskRecords.StreamArn"}
    assert mapping["DestinationConfig"]["OnFailure"]["Destination"] == {"Fn::GetAtt": "DeadLetters.Arn"}
    granted = [
        statement
        for statement in list_statements(FUNCTIONS["TaskStreamFunction"])
        if list_resources(statement) == [{"Fn::GetAtt": "TaskRecords.StreamArn"}]
    ]
    assert [list_actions(statement) for statement in granted] == [
        ["dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator", "dynamodb:ListStreams"]
    ]


def test_changes_of_the_files_bucket_reach_the_function_that_follows_them() -> None:
    """A batch is tried five times, then it is among the dead letters."""
    resources = template.load_template()["Resources"]
    queue, rule = resources["BucketEventsQueue"]["Properties"], resources["BucketEventsRule"]["Properties"]
    assert rule["EventPattern"] == {
        "source": ["aws.s3"],
        "detail-type": ["Object Created", "Object Deleted"],
        "detail": {"bucket": {"name": [{"Ref": "Files"}]}},
    }
    assert [target["Arn"] for target in rule["Targets"]] == [{"Fn::GetAtt": "BucketEventsQueue.Arn"}]
    (statement,) = resources["BucketEventsQueuePolicy"]["Properties"]["PolicyDocument"]["Statement"]
    assert (statement["Principal"], statement["Action"]) == ({"Service": "events.amazonaws.com"}, "sqs:SendMessage")
    assert statement["Condition"] == {"ArnEquals": {"aws:SourceArn": {"Fn::GetAtt": "BucketEventsRule.Arn"}}}
    dead_letters = {"Fn::GetAtt": "DeadLetters.Arn"}
    assert queue["RedrivePolicy"] == {"deadLetterTargetArn": dead_letters, "maxReceiveCount": 5}
    assert queue["VisibilityTimeout"] == 6 * resources["BucketEventsFunction"]["Properties"]["Timeout"]
    mapping = resources["BucketEvents"]["Properties"]
    assert mapping["EventSourceArn"] == {"Fn::GetAtt": "BucketEventsQueue.Arn"}
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    granted = [
        statement
        for statement in list_statements(FUNCTIONS["BucketEventsFunction"])
        if list_resources(statement) == [{"Fn::GetAtt": "BucketEventsQueue.Arn"}]
    ]
    assert [list_actions(statement) for statement in granted] == [
        ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"]
    ]
