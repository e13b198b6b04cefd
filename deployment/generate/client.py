"""The typed client, from the OpenAPI document: `mangrove.client.models` and `mangrove.client.operations`."""

from __future__ import annotations

import keyword
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from deployment.generate import Files
from deployment.generate.api import import_functions
from mangrove.identity.rights import Right
from mangrove.standalone import docs
from mangrove.tasks.core.model import State
from mangrove.tasks.core.registry import KINDS

FOLDER = "shared/mangrove/client"
PREFIX = "/api/"
SIMPLE_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
HEAD = '''# Derived from the service by `make generate`.
"""{summary}"""

from __future__ import annotations

'''
Json = Mapping[str, Any]


def generate_client() -> Files:
    """Derive the shapes of requests and answers, and a method for each operation below `/api/`."""
    import_functions()
    document = docs.build_document()
    return {
        f"{FOLDER}/models.py": _format(_render_models(document["components"]["schemas"])),
        f"{FOLDER}/operations.py": _format(_render_operations(document)),
    }


def _format(text: str) -> str:
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", f"{FOLDER}/models.py", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout  # noqa: S603 - ruff


def _render_models(schemas: Mapping[str, Json]) -> str:
    names = sorted(name for name in schemas if not name.startswith("Envelope_") and name != "Failure")
    classes = "\n\n".join(_render_model(_name_model(name), schemas[name]) for name in names)
    imports = "from typing import Any, NotRequired, TypedDict\n\n\n"
    return HEAD.format(summary="The shapes of requests and answers.") + imports + classes + "\n"


def _render_model(name: str, schema: Json) -> str:
    properties = schema.get("properties", {})
    required = schema.get("required", ())
    fields = {
        field: _read_type(body) if field in required else f"NotRequired[{_read_type(body)}]"
        for field, body in properties.items()
    }
    if any(not field.isidentifier() or keyword.iskeyword(field) for field in fields):
        rows = ", ".join(f'"{field}": "{text}"' for field, text in fields.items())
        return f'{name} = TypedDict("{name}", {{{rows}}})\n'
    rows = "".join(f"    {field}: {text}\n" for field, text in fields.items())
    return f"class {name}(TypedDict):\n{rows or '    pass'}\n"


def _name_model(name: str) -> str:
    """Return the name of a schema as a class: `Rows_UserRow_` is `UserRowPage`."""
    return re.sub(r"^Rows_(\w+?)_$", r"\1Page", name)


def _read_type(schema: Json, module: str = "") -> str:
    """Return the annotation of a schema. `module` precedes the names of models."""
    if "$ref" in schema:
        return module + _name_model(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_read_type(part, module) for part in schema["anyOf"]))
    match schema.get("type"):
        case "array":
            return f"list[{_read_type(schema.get('items', {}), module)}]"
        case "object":
            values = schema.get("additionalProperties")
            return f"dict[str, {_read_type(values, module) if isinstance(values, dict) else 'Any'}]"
        case kind:
            return SIMPLE_TYPES.get(str(kind), "Any")


def _render_operations(document: Json) -> str:
    kinds = tuple(sorted(kind.name for kind in KINDS.values() if kind.is_listed))
    states = tuple(state.name.lower() for state in sorted(State))
    rights = {right.name.lower(): int(right) for right in Right if right and right.name}
    methods = "\n".join(_render_operation(*operation, document) for operation in _iter_operations(document))
    return (
        HEAD.format(summary="A method for each operation of the API.")
        + "from collections.abc import Iterable\nfrom typing import Any, Unpack\n\n"
        + "from mangrove.client import models\n\n"
        + f"TASK_STATES = {states!r}\nTASK_KINDS = {kinds!r}\nRIGHTS = {rights!r}\n"
        + "Content = bytes | Iterable[bytes]\n\n\n"
        + 'class Operations:\n    """The operations, by their paths: `POST /api/fs/list` is `fs_list`."""\n\n'
        + "    def _call(\n        self, method: str, path: str, *, query: dict[str, Any] | None = None, "
        + "headers: dict[str, Any] | None = None,\n        json: Any = None, content: Content | None = None,\n"
        + '    ) -> Any:\n        """Send a request and return `data` of its answer."""\n        '
        + "raise NotImplementedError\n\n"
        + methods
    )


def _iter_operations(document: Json) -> Iterator[tuple[str, str, Json]]:
    """Yield method, path and body of the operations that answer with an envelope.

    Where a path has GET and POST for the same, POST is yielded: its body has no bound on length.
    """
    for path, operations in sorted(document["paths"].items()):
        if not path.startswith(PREFIX):
            continue
        for method in ("put", "post", "get"):
            operation = operations.get(method, {})
            is_form = "multipart/form-data" in operation.get("requestBody", {}).get("content", {})
            if operation and not is_form and _read_answer(operation, document) is not None:
                yield method.upper(), path, operation
                break


def _read_answer(operation: Json, document: Json) -> str | None:
    """Return the annotation of `data`, None if the answer is not an envelope."""
    schema = operation["responses"].get("200", {}).get("content", {}).get("application/json", {}).get("schema", {})
    for part in schema.get("anyOf", [schema]):
        name = part.get("$ref", "").rpartition("/")[2]
        if name.startswith("Envelope_"):
            return _read_type(document["components"]["schemas"][name]["properties"]["data"], "models.")
    return None


def _render_operation(method: str, path: str, operation: Json, document: Json) -> str:
    name = re.sub(r"\W+", "_", re.sub(r"/{\w+}", "", path.removeprefix(PREFIX)))
    parameters = operation.get("parameters", ())
    body = operation.get("requestBody", {}).get("content", {})
    positional = [f"{row['name']}: str" for row in parameters if row["in"] == "path"]
    keywords = [_render_parameter(row) for row in parameters if row["in"] != "path"]
    arguments = [_render_argument("query", parameters), _render_argument("headers", parameters, "header")]
    last = ""
    if "application/json" in body:
        schema = body["application/json"]["schema"]
        annotation = _read_type(schema, "models.")
        fields = document["components"]["schemas"].get(schema.get("$ref", "").rpartition("/")[2], {})
        if "$ref" in schema and not set(fields.get("properties", ())) & {_name(row) for row in parameters}:
            last = f"**body: Unpack[{annotation}]"
        else:
            positional.append(f"body: {annotation}")
        arguments.append("json=body")
    elif body:
        positional.append("content: Content")
        arguments.append("content=content")
    signature = ["self", *positional, *(["*", *keywords] if keywords else ()), *([last] if last else ())]
    text = operation["description"].partition("\n")[0]
    address = re.sub(r"{(\w+)}", r"{\1}", path)
    quoted = f'f"{address}"' if "{" in address else f'"{address}"'
    call = ", ".join([f'"{method}"', quoted, *filter(None, arguments)])
    returned = _read_answer(operation, document)
    start = "" if returned == "None" else "return "
    return (
        f"    def {name}({', '.join(signature)}) -> {returned}:\n"
        f'        """{text}"""\n        {start}self._call({call})\n'
    )


def _name(parameter: Json) -> str:
    return re.sub(r"\W", "_", parameter["name"].lower())


def _render_parameter(parameter: Json) -> str:
    annotation = _read_type(parameter.get("schema", {}))
    if parameter.get("required"):
        return f"{_name(parameter)}: {annotation}"
    return f"{_name(parameter)}: {annotation}{'' if annotation == 'Any' else ' | None'} = None"


def _render_argument(argument: str, parameters: Any, place: str = "") -> str:
    """Return the argument of `_call` with the parameters of a place, "" if there are none."""
    rows = [f'"{row["name"]}": {_name(row)}' for row in parameters if row["in"] == (place or argument)]
    return f"{argument}={{{', '.join(rows)}}}" if rows else ""
