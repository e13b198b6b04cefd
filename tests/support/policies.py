"""The rights that the template gives each function, in the words of `tests.support.recorder`."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from mangrove.standalone import template
from tests.support.recorder import KEY_MARK, Right

FUNCTIONS: dict[str, dict[str, Any]] = {
    name: function["Properties"] for name, function in template.iter_resources("AWS::Serverless::Function")
}
QUEUE = "AWS::SQS::Queue"


def get_folder(name: str) -> str:
    """The folder of a function's code, or the module in it where that is no app."""
    module = FUNCTIONS[name].get("Handler", "app.handler").partition(".")[0]
    return f"{FUNCTIONS[name]['CodeUri']}{module}".removesuffix("/app")


class Policy:
    """The rights of one function; `refs` as `lambdas.Cloud` has them."""

    def __init__(self, name: str, refs: Mapping[str, str]) -> None:
        self._rights = read_inline(name, refs) | read_managed(name, refs)

    def grants(self, needs: set[Right]) -> bool:
        """Return True if a call that needs all of this is allowed."""
        return all(any(covers(right, need) for right in self._rights) for need in needs)


def find_listing(needs: set[Right]) -> set[Right]:
    """Return the rights that S3 requires to report that an object does not exist."""
    return {("s3:ListBucket", place.partition("/")[0]) for action, place in needs if action == "s3:GetObject"}


def covers(right: Right, need: Right) -> bool:
    """Return True if a right is enough for the need. One without a condition on keys is enough for every key."""
    place, _, patterns = right[1].partition(KEY_MARK)
    needed_place, _, heads = need[1].partition(KEY_MARK)
    if right[0] != need[0] or not fnmatchcase(needed_place, place):
        return False
    return not patterns or all(
        any(fnmatchcase(head, pattern) for pattern in patterns.split(",")) for head in heads.split(",")
    )


def read_inline(name: str, refs: Mapping[str, str]) -> set[Right]:
    """The rights that are a function's own."""
    policies = FUNCTIONS[name]["Policies"]
    return {right for policy in policies if "Statement" in policy for right in _read(policy["Statement"], refs)}


def read_managed(name: str, refs: Mapping[str, str]) -> set[Right]:
    """The rights that a function shares with others."""
    resources = template.load_template()["Resources"]
    policies = [resources[policy["Ref"]]["Properties"] for policy in FUNCTIONS[name]["Policies"] if "Ref" in policy]
    return {right for policy in policies for right in _read(policy["PolicyDocument"]["Statement"], refs)}


def _read(statements: list[dict[str, Any]], refs: Mapping[str, str]) -> set[Right]:
    rights: set[Right] = set()
    for statement in statements:
        assert statement["Effect"] == "Allow" and set(statement) - {"Condition"} == {"Effect", "Action", "Resource"}
        actions, resources = (
            value if isinstance(value, list) else [value] for value in (statement["Action"], statement["Resource"])
        )
        own = [resource for resource in resources if not _is_of_lambda(resource)]
        keys = read_keys(statement)
        condition = KEY_MARK + ",".join(keys) if keys else ""
        rights |= {(action, _read_resource(resource, refs) + condition) for action in actions for resource in own}
    return rights


def read_keys(statement: dict[str, Any]) -> list[str]:
    """The patterns of the keys that a statement is for; none: it is for all."""
    if "Condition" not in statement:
        return []
    assert statement["Condition"].keys() == {"ForAllValues:StringLike"}
    ((variable, patterns),) = statement["Condition"]["ForAllValues:StringLike"].items()
    assert variable == "dynamodb:LeadingKeys"
    return list(patterns)


def _is_of_lambda(shown: dict[str, str]) -> bool:
    """True for the streams and queues that Lambda reads, or sends to what failed, by a function's role."""
    name, _, attribute = shown.get("Fn::GetAtt", "").partition(".")
    return attribute == "StreamArn" or template.load_template()["Resources"].get(name, {}).get("Type") == QUEUE


def _read_resource(shown: dict[str, str], refs: Mapping[str, str]) -> str:
    resources = template.load_template()["Resources"]
    ((kind, text),) = shown.items()
    if kind == "Ref":
        return refs[text]
    name, _, rest = text.removeprefix("${").replace("Arn}", "Arn").partition(".Arn")
    assert kind in ("Fn::GetAtt", "Fn::Sub"), shown
    if resources[name]["Type"] == "AWS::DynamoDB::Table":
        assert rest in ("", *(f"/index/{index['IndexName']}" for index in _list_indexes(resources[name]))), shown
        return refs[name] + rest
    if resources[name]["Type"] == "AWS::Events::EventBus":
        return refs[name]
    is_pattern = name == "Staging" and rest.startswith("/") and "*" in rest
    assert resources[name]["Type"] == "AWS::S3::Bucket" and (rest in ("", "/*") or is_pattern), shown
    return refs[name] + rest


def _list_indexes(table: dict[str, Any]) -> list[dict[str, Any]]:
    indexes: list[dict[str, Any]] = table["Properties"].get("GlobalSecondaryIndexes", [])
    return indexes
