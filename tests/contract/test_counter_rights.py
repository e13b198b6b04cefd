"""Rights to the counters name the keys that a function needs: a slot, a lock, a failure, an answer that is repeated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mangrove.records
from mangrove.standalone import template
from tests.support.policies import FUNCTIONS, read_keys

RECORDS = Path(mangrove.records.__file__).parent
COUNTERS = {"Fn::GetAtt": "Counters.Arn"}
MODULES = {
    "change#*": "store/versions.py",
    "configuration": "store/versions.py",
    "failure#*": "store/counters.py",
    "hold#*": "name_locks.py",
    "id#*": "store/counters.py",
    "mark#*": "store/counters.py",
    "once#*": "store/counters.py",
    "open uploads": "open_uploads.py",
    "open uploads#*": "open_uploads.py",
    "receipts#*": "share_uploads.py",
    "request#*": "request_keys.py",
    "schema": "store/upgrade.py",
    "slots#*": "tasks/slots.py",
    "upload bytes#*": "share_links.py",
    "upload files#*": "share_links.py",
    "visit#*": "share_links.py",
    "visits#*": "share_links.py",
}
"""The module that makes the keys of a pattern."""


def iter_counter_statements() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each statement about items of the counters, with its function or managed policy."""
    managed = template.iter_resources("AWS::IAM::ManagedPolicy")
    policies = [(name, policy["Properties"]["PolicyDocument"]) for name, policy in managed]
    policies += [
        (name, policy)
        for name, function in FUNCTIONS.items()
        for policy in function["Policies"]
        if "Statement" in policy
    ]
    for name, policy in policies:
        for statement in policy["Statement"]:
            if COUNTERS in as_list(statement["Resource"]) and "Item" in str(statement["Action"]):
                yield name, statement


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


STATEMENTS = [(name, statement) for name, statement in iter_counter_statements() if name != "ReadUsers"]


@pytest.mark.parametrize(("name", "statement"), STATEMENTS, ids=[name for name, _ in STATEMENTS])
def test_right_to_counters_names_keys_that_the_code_makes(name: str, statement: dict[str, Any]) -> None:
    keys = read_keys(statement)
    assert keys and statement["Resource"] == COUNTERS
    for key in keys:
        pattern = "id#*" if key.startswith("id#") else key
        assert f'"{pattern.partition("#")[0]}' in (RECORDS / MODULES[pattern]).read_text()


def test_each_function_has_one_statement_for_the_keys_of_counters() -> None:
    names = [name for name, _ in STATEMENTS]
    assert len(names) == len(set(names))


def test_only_the_batch_with_a_session_reads_every_key() -> None:
    (statement,) = (statement for name, statement in iter_counter_statements() if name == "ReadUsers")
    assert statement == {"Effect": "Allow", "Action": "dynamodb:BatchGetItem", "Resource": COUNTERS}


def test_function_that_everybody_may_call_reads_the_version_alone() -> None:
    assert {"Ref": "ReadUsers"} not in FUNCTIONS["SiteFunction"]["Policies"]
    assert "SiteFunction" not in dict(STATEMENTS)
    assert read_keys(dict(STATEMENTS)["ReadConfiguration"]) == ["configuration", "change#*"]


def test_no_condition_stands_beside_a_scan() -> None:
    """A scan has no key, so that a condition on all keys would be true."""
    for _, statement in STATEMENTS:
        assert not {"dynamodb:Scan", "dynamodb:Query"} & set(as_list(statement["Action"]))
