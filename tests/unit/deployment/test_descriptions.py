"""The trimmed descriptions of AWS make the same clients and calls as all of botocore's."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import botocore
import pytest
from botocore.loaders import Loader
from botocore.model import OperationModel, ServiceModel, Shape, StructureShape
from botocore.regions import EndpointResolver

from deployment.descriptions import DATA, OPERATIONS, PREFIXES, SERVICES, trim_descriptions
from mangrove.standalone import template
from tests.support.service_models import UnsharedFileLoader

INSTALLED = Path(botocore.__file__).parent / "data"


@pytest.fixture(scope="module")
def trimmed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The installed descriptions of SERVICES, or of all and one more, without the parts that are removed."""
    folder = tmp_path_factory.mktemp("layer")
    data = folder / DATA[0]
    data.mkdir(parents=True)
    for file in INSTALLED.glob("*.json"):
        shutil.copy(file, data)
    for service in (*SERVICES, "sts"):
        shutil.copytree(INSTALLED / service, data / service)
    trim_descriptions(folder)
    return data


def load(data: Path, service: str, kind: str = "service-2") -> Any:
    loader = Loader([str(data)], UnsharedFileLoader(), include_default_search_paths=False)
    return loader.load_service_model(service, kind)


def describe(shape: Shape | None, seen: frozenset[str] = frozenset()) -> Any:
    """All that a call is written and read by."""
    if shape is None or shape.name in seen:
        return shape and shape.name
    seen |= {shape.name}
    about: Any = [shape.name, shape.type_name, shape.serialization, shape.metadata]
    if isinstance(shape, StructureShape):
        about.append({name: describe(member, seen) for name, member in shape.members.items()})
    for part in ("member", "key", "value"):
        if hasattr(shape, part):
            about.append(describe(getattr(shape, part), seen))
    return about


def describe_operation(operation: OperationModel) -> list[Any]:
    return [
        operation.name, operation.http, operation.http_checksum, operation.endpoint, operation.auth_type,
        operation.static_context_parameters, operation.context_parameters, operation.idempotent_members,
        describe(operation.input_shape), describe(operation.output_shape), list(map(describe, operation.error_shapes)),
    ]  # fmt: skip


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_every_operation_that_is_called_is_written_and_read_as_before(trimmed: Path, service: str) -> None:
    before, after = (ServiceModel(load(data, service), service) for data in (INSTALLED, trimmed))
    expected = OPERATIONS.get(before.metadata["serviceId"], frozenset(before.operation_names))
    assert before.metadata == after.metadata and set(after.operation_names) == expected
    for name in after.operation_names:
        assert describe_operation(before.operation_model(name)) == describe_operation(after.operation_model(name))


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_shapes_that_no_operation_has_are_gone(trimmed: Path, service: str) -> None:
    model = ServiceModel(load(trimmed, service), service)
    used = str([describe_operation(model.operation_model(name)) for name in model.operation_names])
    if service != "s3":
        assert not [name for name in load(trimmed, service)["shapes"] if f"'{name}'" not in used]


def test_the_operations_that_are_kept_are_those_that_policies_grant() -> None:
    granted = set(
        re.findall(r"'(dynamodb|events|secretsmanager|states):(\w+)'", str(template.load_template()["Resources"]))
    )
    # the variable of a condition, and the permission for a part of a transaction that is no operation by itself
    granted -= {("dynamodb", "LeadingKeys"), ("dynamodb", "ConditionCheckItem")}
    transactions = {("dynamodb", name) for name in ("TransactGetItems", "TransactWriteItems")}  # granted by their parts
    prefixes = {"DynamoDB": "dynamodb", "Secrets Manager": "secretsmanager", "SFN": "states", "EventBridge": "events"}
    # by Lambda itself
    streams = {("dynamodb", name) for name in ("DescribeStream", "GetRecords", "GetShardIterator", "ListStreams")}
    operations = {(prefixes[id], name) for id, names in OPERATIONS.items() for name in names}
    assert operations == (granted | transactions) - streams


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_pages_and_rules_of_endpoints_are_those_of_before(trimmed: Path, service: str) -> None:
    for kind in ("paginators-1", "endpoint-rule-set-1"):
        assert load(trimmed, service, kind) == load(INSTALLED, service, kind)


def test_service_endpoints_are_unchanged_in_every_region(trimmed: Path) -> None:
    before, after = (
        EndpointResolver(json.loads((data / "endpoints.json").read_text())) for data in (INSTALLED, trimmed)
    )
    assert before.get_available_partitions() == after.get_available_partitions()
    for partition in before.get_available_partitions():
        for prefix in PREFIXES:
            regions = before.get_available_endpoints(prefix, partition, allow_non_regional=True)
            assert regions == after.get_available_endpoints(prefix, partition, allow_non_regional=True)
            for region in regions:
                endpoint = after.construct_endpoint(prefix, region, partition)
                assert endpoint == before.construct_endpoint(prefix, region, partition)


def test_what_only_people_read_is_gone_and_a_member_of_that_name_is_not(trimmed: Path, tmp_path: Path) -> None:
    assert sorted(path.name for path in trimmed.iterdir() if path.is_dir()) == sorted(SERVICES)
    assert not [path for path in trimmed.rglob("*") if path.name.startswith("examples") or path.suffix == ".gz"]
    for service in SERVICES:
        before, after = (json.dumps(load(data, service)) for data in (INSTALLED, trimmed))
        assert len(after) < len(before) / 2, "most of a description is texts"
    own = tmp_path / DATA[0] / "s3" / "2006-03-01" / "service-2.json"
    own.parent.mkdir(parents=True)
    member = {"shape": "Text", "documentation": "said to people"}
    shapes = {"Some": {"type": "structure", "members": {"documentation": member}, "documentation": "too"}}
    own.write_text(json.dumps({"metadata": {}, "documentation": "as well", "operations": {}, "shapes": shapes}))
    trim_descriptions(tmp_path)
    remaining_shapes = {"Some": {"type": "structure", "members": {"documentation": {"shape": "Text"}}}}
    assert json.loads(own.read_text()) == {"metadata": {}, "operations": {}, "shapes": remaining_shapes}
