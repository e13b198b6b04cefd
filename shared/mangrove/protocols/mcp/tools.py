"""The tools: their declarations, the check of arguments, and their calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mangrove.core.problems import Problem
from mangrove.identity.rights import Caller, Right
from mangrove.protocols.mcp import changing, reading
from mangrove.protocols.mcp.results import InvalidParameters, ToolCall, make_failure

Schema = dict[str, Any]
TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "integer", "minimum": 0}
SWITCH: Schema = {"type": "boolean"}
PATH: Schema = TEXT | {"description": "Path from / at the folder of the token.", "maxLength": 4096}
PLAN: Schema = TEXT | {
    "description": "Id of the plan that the same call answered with before; without it, a plan is made."
}
MAX_TEXT_LENGTH = 4 << 20  # characters of an argument: enough for a file of 1 MiB in Base64
_TYPES: Mapping[str, type] = {"string": str, "integer": int, "boolean": bool}


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool. `properties` and `required` belong to the JSON schema of its arguments."""

    name: str
    description: str
    call: Callable[[ToolCall], Awaitable[dict[str, Any]]]
    properties: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    is_reading: bool = False

    def describe(self) -> dict[str, Any]:
        """Return the description of the tool for lists."""
        schema = {
            "type": "object", "properties": dict(self.properties), "required": list(self.required),
            "additionalProperties": False,
        }  # fmt: skip
        hints = {"readOnlyHint": self.is_reading, "destructiveHint": not self.is_reading, "openWorldHint": False}
        return {"name": self.name, "description": self.description, "inputSchema": schema, "annotations": hints}

    def check(self, arguments: Any) -> None:
        """Raise InvalidParameters unless the arguments fit the schema."""
        if not isinstance(arguments, dict):
            raise InvalidParameters("the arguments of a tool are an object")
        missing = [name for name in self.required if name not in arguments]
        if missing or not set(arguments) <= set(self.properties):
            unknown = sorted(set(arguments) - set(self.properties))
            raise InvalidParameters(f"{self.name}: missing {missing}, unknown {[name[:64] for name in unknown[:10]]}")
        for name, value in arguments.items():
            self._check_value(name, value)

    def _check_value(self, name: str, value: Any) -> None:
        schema = self.properties[name]
        if not isinstance(value, _TYPES[schema["type"]]) or (isinstance(value, bool) and schema["type"] != "boolean"):
            raise InvalidParameters(f"{name} is not of the type {schema['type']}")
        if isinstance(value, str) and len(value) > schema.get("maxLength", MAX_TEXT_LENGTH):
            raise InvalidParameters(f"{name} is too long")
        if "enum" in schema and value not in schema["enum"]:
            raise InvalidParameters(f"{name} must be one of {', '.join(schema['enum'])}")
        if isinstance(value, int) and not 0 <= value < 2**53:
            raise InvalidParameters(f"{name} is out of range")


ENCODING: Schema = TEXT | {"enum": ["text", "base64"], "description": "`text` is UTF-8."}
ENDS: dict[str, Schema] = {
    "source": PATH,
    "target": PATH | {"description": "The new path of the entry, with its name."},
    "overwrite": SWITCH | {"description": "Replace what is at the target."},
    "plan": PLAN,
}
TOOLS: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(
            "list_folder", "List the entries of a folder.", reading.list_folder,
            {"path": PATH, "start": NUMBER, "count": NUMBER | {"description": "At most 1000; 200 if absent."}},
            ("path",), True,
        ),
        Tool(
            "search", "Search names in a folder and below.", reading.search,
            {"path": PATH, "keywords": TEXT, "start": NUMBER, "count": NUMBER | {"description": "At most 200."}},
            ("keywords",), True,
        ),
        Tool(
            "stat", "Return the size and the time of a file or folder.", reading.stat, {"path": PATH}, ("path",), True,
        ),
        Tool(
            "read_file", "Return a part of a file, at most 1 MiB.", reading.read_file,
            {
                "path": PATH, "encoding": ENCODING, "offset": NUMBER | {"description": "First byte."},
                "length": NUMBER | {"description": "Bytes, at most 1048576."},
            },
            ("path",), True,
        ),
        Tool(
            "write_file", "Store a file of at most 1 MiB. It replaces none unless overwrite is true.",
            changing.write_file, {"path": PATH, "content": TEXT, "encoding": ENCODING, "overwrite": SWITCH},
            ("path", "content"),
        ),
        Tool(
            "make_folder", "Make a folder, and missing ones above it.", changing.make_folder, {"path": PATH}, ("path",),
        ),
        Tool(
            "move", "Move or rename a file or folder. The first call answers with a plan.", changing.move, ENDS,
            ("source", "target"),
        ),
        Tool(
            "copy", "Copy a file or folder. The first call answers with a plan.", changing.copy, ENDS,
            ("source", "target"),
        ),
        Tool(
            "remove", "Remove a file, or a folder with all in it. The first call answers with a plan.", changing.remove,
            {"path": PATH, "plan": PLAN}, ("path",),
        ),
        Tool(
            "list_tasks", "List the tasks that this token requested.", reading.list_tasks,
            {"done": SWITCH | {"description": "True for finished tasks."}}, (), True,
        ),
        Tool(
            "cancel_task", "Cancel a task that this token requested.", changing.cancel_task,
            {"kind": TEXT | {"maxLength": 64}, "id": TEXT | {"maxLength": 64}}, ("kind", "id"),
        ),
        Tool(
            "share", "Create a share link for a file or folder: whoever has the address can read it.", changing.share,
            {
                "path": PATH, "password": TEXT | {"maxLength": 255},
                "expires_in_seconds": NUMBER | {"description": "0 or absent for no end."},
            },
            ("path",),
        ),
    )
}  # fmt: skip


async def call(caller: Caller, base_url: str, name: Any, arguments: Any) -> dict[str, Any]:
    """Return the result of a tool, which may be a failure. Raise InvalidParameters."""
    tool = TOOLS.get(name) if isinstance(name, str) else None
    if tool is None:
        raise InvalidParameters("there is no tool of this name")
    tool.check(arguments)
    try:
        return await tool.call(ToolCall(replace(caller, declared_right=Right.READ), base_url, arguments))
    except Problem as problem:
        return make_failure(problem.describe())
