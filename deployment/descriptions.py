"""Make botocore's descriptions of AWS smaller: keep the parts that clients and calls need, without documentation.

botocore reads the descriptions in each new process, and documentation is nine tenths of their size.
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

# services of AWS that Mangrove calls
SERVICES = frozenset({"dynamodb", "events", "s3", "secretsmanager", "stepfunctions"})
OPERATIONS: Mapping[str, frozenset[str]] = {
    "DynamoDB": frozenset(
        {"BatchGetItem", "BatchWriteItem", "DeleteItem", "GetItem", "PutItem", "Query", "Scan", "UpdateItem"}
        | {"TransactGetItems", "TransactWriteItems", "DescribeTable", "UpdateTable"}
    ),
    "Secrets Manager": frozenset({"GetSecretValue", "PutSecretValue"}),
    "EventBridge": frozenset({"PutEvents"}),
    "SFN": frozenset({"DescribeExecution", "StartExecution", "StopExecution"}),
}
"""The operations that the policies of the template grant, by service id. S3 keeps all: storages have other rights."""

PREFIXES = frozenset({"dynamodb", "events", "s3", "secretsmanager", "states"})  # of the endpoints of these services
DATA = ("botocore/data", "boto3/data")  # a folder for each of AWS's 400 services
EXAMPLES = "examples-1.json*"  # part of the documentation
TEXTS = frozenset({"documentation", "documentationUrl"})


def trim_descriptions(folder: Path) -> None:
    """Remove files that no client of SERVICES needs from the libraries in a folder. Decompress the others, because a
    layer is an archive anyway."""
    for data in DATA:
        services = [path for path in (folder / data).glob("*") if path.is_dir()]
        for service in services:
            if service.name not in SERVICES:
                shutil.rmtree(service)
    for path in folder.glob(f"{DATA[0]}/**/{EXAMPLES}"):
        path.unlink()
    for path in folder.glob(f"{DATA[0]}/**/*.json.gz"):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    for path in folder.glob(f"{DATA[0]}/**/*.json"):
        change = CHANGES.get(path.name)
        description = json.loads(path.read_text())
        path.write_text(json.dumps(change(description) if change else description, separators=(",", ":")))


def _trim_service(description: dict[str, Any]) -> dict[str, Any]:
    """Return a service with only the called operations and their shapes, without documentation."""
    trimmed = _keep_operations({key: value for key, value in description.items() if key not in TEXTS})
    for part in ("operations", "shapes"):
        trimmed[part] = {name: _drop_texts(shape) for name, shape in trimmed.get(part, {}).items()}
    return trimmed


def _keep_operations(description: dict[str, Any]) -> dict[str, Any]:
    used_operations = OPERATIONS.get(description.get("metadata", {}).get("serviceId", ""))
    if used_operations is None:
        return description
    operations = {name: value for name, value in description["operations"].items() if name in used_operations}
    shapes, used = description["shapes"], set[str]()
    new_shapes = _list_shapes(operations)
    while new_shapes:
        used |= new_shapes
        new_shapes = _list_shapes([shapes[name] for name in new_shapes]) - used
    return description | {
        "operations": operations,
        "shapes": {name: value for name, value in shapes.items() if name in used},
    }


def _list_shapes(part: Any) -> set[str]:
    """Return the names of the shapes that a part of a description refers to. A member may also be called `shape`."""
    if isinstance(part, list):
        return set[str]().union(*map(_list_shapes, part))
    if not isinstance(part, dict):
        return set()
    own = {part["shape"]} if isinstance(part.get("shape"), str) else set()
    return own.union(*map(_list_shapes, part.values()))


def _drop_texts(description: dict[str, Any]) -> dict[str, Any]:
    """Return an operation, a shape or a reference without documentation. A member may have the name of a text."""
    trimmed = {
        key: _drop_texts(value) if isinstance(value, dict) and key != "members" else value
        for key, value in description.items()
        if key not in TEXTS
    }
    if "members" in description:
        trimmed["members"] = {name: _drop_texts(member) for name, member in description["members"].items()}
    return trimmed


def _trim_endpoints(description: dict[str, Any]) -> dict[str, Any]:
    """Return all regions with only the used services."""
    partitions = [
        partition | {"services": {name: service for name, service in partition["services"].items() if name in PREFIXES}}
        for partition in description.get("partitions", ())
    ]
    return description | {"partitions": partitions}


CHANGES: Mapping[str, Callable[[Any], Any]] = {"service-2.json": _trim_service, "endpoints.json": _trim_endpoints}
