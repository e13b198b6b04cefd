"""The libraries of the build answer requests without the modules that it leaves out."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

import pytest
from pydantic.plugin._loader import PYDANTIC_ENTRY_POINT_GROUP

from deployment.dataclass_code import FILE, store_dataclass_code
from deployment.omissions import DEFERRED, DEFERRED_MARK, EMPTY_MODULE, REPLACED, defer_imports, omit

ROOT = Path(__file__).resolve().parents[3]
ANSWER = """
import asyncio, sys
import httpx
from mangrove.web.api import Api
from mangrove.web.envelope import ok
from mangrove.web.framework import Body
from mangrove.web.gates import Anyone

class Request(Body):
    number: int = 1

api = Api("example")

@api.read("/api/example")
async def answer(who: Anyone, body: Request):
    return ok({"number": body.number})

async def ask():
    async with httpx.AsyncClient(transport=httpx.ASGITransport(api.app), base_url="http://mangrove") as client:
        first = await client.post("/api/example", json={"number": 2})
        second = await client.get("/api/example?number=3")
        third = await client.post("/api/example", json={"number": "x"})
    return [first.json()["data"], second.json()["data"], third.json()["code"]]

assert "aws_lambda_powertools.metrics" not in sys.modules
assert asyncio.run(ask()) == [{"number": 2}, {"number": 3}, 400]
import fastapi.openapi.models
assert fastapi.openapi.models.__file__.startswith(sys.argv[1])
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
unused = ("utilities.jmespath_utils", "tracing")
assert not {f"aws_lambda_powertools.{name}" for name in unused} & set(sys.modules)
import pydantic.plugin._loader
assert pydantic.__file__.startswith(sys.argv[1])
assert not pydantic.plugin._loader.get_plugins()
from pydantic_core import core_schema
assert type(core_schema.CoreConfig({"strict": True}, title="a")) is dict
assert core_schema.CoreConfig({"strict": True}, title="a") == {"strict": True, "title": "a"}
from inspect import signature
import fastapi.routing
assert isinstance(signature(fastapi.routing.APIRouter.get).parameters["path"].annotation, str)

assert "python_multipart" not in sys.modules

import jwt
assert jwt.__file__.startswith(sys.argv[1])
assert jwt.decode(jwt.encode({"a": 1}, "k" * 32), "k" * 32, algorithms=["HS256"]) == {"a": 1}
assert "jwt.jwks_client" not in sys.modules

import starlette.formparsers
assert starlette.formparsers.FormParser.__name__ == "LeftOut"
from aws_lambda_powertools import Logger
logger = Logger(service="example")
logger.inject_lambda_context(lambda event, context: None, correlation_id_path="id")({"id": "x"}, type("Context", (), {
    "function_name": "f", "memory_limit_in_mb": 1, "invoked_function_arn": "a", "aws_request_id": "r"})())
assert logger.get_correlation_id() == "x"
"""


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    """A folder with libraries that the build changes, and a package that it removes."""
    for name in ("fastapi", "starlette", "pydantic", "pydantic_core", "jwt", "aws_lambda_powertools"):
        spec = find_spec(name)
        assert spec is not None and spec.origin is not None
        shutil.copytree(Path(spec.origin).parent, tmp_path / name)
    for folder in ("opentelemetry", "opentelemetry_api-1.dist-info"):
        (tmp_path / folder).mkdir()
    omit(tmp_path)
    return tmp_path


def run(code: str, layer: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": str(layer), "MANGROVE_TABLES": "mangrove", "MANGROVE_KEY_FILE": "/dev/null"}
    environment |= {"AWS_LAMBDA_FUNCTION_NAME": "example", "AWS_REGION": "us-east-1", **more}
    command = [sys.executable, "-c", code, str(layer), *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_routes_answer_without_the_modules_that_are_left_out(layer: Path) -> None:
    done = run(ANSWER, layer)
    assert done.returncode == 0, done.stderr


def test_no_library_has_a_plugin_that_the_build_leaves_out() -> None:
    assert not entry_points(group=PYDANTIC_ENTRY_POINT_GROUP)


def test_replaced_modules_are_of_the_library_and_removed_packages_are_gone(layer: Path) -> None:
    assert [(layer / name).read_text() for name in REPLACED] == [EMPTY_MODULE] * len(REPLACED)
    for name in ("fastapi/_form_limits.py", "fastapi/routing.py", "aws_lambda_powertools/logging/logger.py"):
        assert (layer / name).read_text().startswith(DEFERRED_MARK)
    assert not [path.name for path in layer.iterdir() if path.name.startswith("opentelemetry")]


def test_layer_without_the_library_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("VALUE = 1")
    omit(tmp_path)
    assert [path.name for path in tmp_path.rglob("*")] == ["a.py"]


USE_STORED_CODE = """
import sys
sys.path.insert(0, sys.argv[2])
import mangrove
from mangrove.drivers.base import Capacity
import function
value = function.Pair(1, "a")
assert (value, repr(value)) == (function.Pair(1, "a"), "Pair(number=1, name='a')") and value != function.Pair(2, "a")
for stored in (function.Pair, Capacity):
    assert stored.__init__.__code__.co_filename == "<dataclass>", stored
from dataclasses import make_dataclass
assert make_dataclass("Other", ["text"])("a").text == "a", "another source is compiled"
"""


def test_stored_code_makes_the_same_dataclasses_without_a_compilation(tmp_path: Path) -> None:
    package, function = tmp_path / "layer", tmp_path / "function.py"
    shutil.copytree(ROOT / "shared" / "mangrove", package / "mangrove", ignore=shutil.ignore_patterns("__pycache__"))
    function.write_text(
        "from dataclasses import dataclass\n\n"
        "@dataclass(frozen=True, slots=True)\nclass Pair:\n    number: int\n    name: str\n"
    )
    libraries = Path(find_spec("fastapi").origin).parents[1]  # type: ignore[union-attr, arg-type]  # it is installed
    assert store_dataclass_code(package, [libraries], [function], "mangrove") == ""
    assert (package / FILE).stat().st_size > 10_000
    done = run(USE_STORED_CODE, package, str(tmp_path))
    assert done.returncode == 0, done.stderr


def test_libraries_that_cannot_be_imported_leave_no_file_and_a_reason(tmp_path: Path) -> None:
    (tmp_path / "mangrove" / "core").mkdir(parents=True)
    (tmp_path / FILE).write_bytes(b"of the last build")
    reason = store_dataclass_code(tmp_path, [], [], "mangrove")
    assert reason.startswith("dataclasses are compiled at each start: ")
    assert not (tmp_path / FILE).exists()


USE_RECORDS = """
import sys
from pynamodb.attributes import UnicodeAttribute
from pynamodb.connection.base import BOTOCORE_EXCEPTIONS
from pynamodb.models import Model
import pynamodb
assert pynamodb.__file__.startswith(sys.argv[1])
from botocore.exceptions import BotoCoreError, ClientError
assert BOTOCORE_EXCEPTIONS == (BotoCoreError, ClientError)
assert not {"botocore.client", "botocore.session", "botocore.httpsession", "urllib3"} & set(sys.modules)

class Row(Model):
    class Meta:
        table_name, region, host = "rows", "us-east-1", "http://127.0.0.1:9"
        max_retry_attempts, connect_timeout_seconds = 0, 1
    key = UnicodeAttribute(hash_key=True)

from pynamodb.exceptions import GetError
try:
    Row.get("a")
except GetError as error:
    assert type(error.cause).__name__ == "EndpointConnectionError", error.cause
else:
    raise AssertionError("port 9 answers")
assert "botocore.client" in sys.modules
"""


def test_tables_are_declared_without_botocore_and_call_by_it(tmp_path: Path) -> None:
    spec = find_spec("pynamodb")
    assert spec is not None and spec.origin is not None
    shutil.copytree(Path(spec.origin).parent, tmp_path / "pynamodb")
    for _ in range(2):  # a second time changes nothing
        omit(tmp_path)
    keys = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}
    done = run(USE_RECORDS, tmp_path, **keys)
    assert done.returncode == 0, done.stderr


DESCRIBE_RECORDS = """
import json, sys
from pynamodb.attributes import BinaryAttribute, MapAttribute, UnicodeAttribute
from pynamodb.indexes import AllProjection, GlobalSecondaryIndex
from pynamodb.models import Model

class Place(MapAttribute):
    town = UnicodeAttribute()

class Base(Model):
    key = UnicodeAttribute(hash_key=True)
    kind = UnicodeAttribute(default="base")
    hidden = BinaryAttribute(legacy_encoding=False)

class Row(Base):
    class ByKind(GlobalSecondaryIndex):
        class Meta:
            index_name, projection = "by-kind", AllProjection()
        kind = UnicodeAttribute(hash_key=True)
    class Meta:
        table_name, region = "rows", "us-east-1"
    by_kind = ByKind()
    kind = UnicodeAttribute(default="row", attr_name="k")
    place = Place()
    hidden = None

def describe(container):
    return [[name, type(value).__name__, value.attr_name] for name, value in container.get_attributes().items()]

described = [describe(container) for container in (Base, Row, Place)]
print(json.dumps([*described, sorted(Row._indexes), Row.by_kind._hash_key_attribute().attr_name]))
"""


def test_records_have_the_attributes_that_the_library_finds(tmp_path: Path) -> None:
    spec = find_spec("pynamodb")
    assert spec is not None and spec.origin is not None
    shutil.copytree(Path(spec.origin).parent, tmp_path / "changed" / "pynamodb")
    omit(tmp_path / "changed")
    (tmp_path / "plain").mkdir()
    changed, plain = (run(DESCRIBE_RECORDS, tmp_path / name) for name in ("changed", "plain"))
    assert (changed.returncode, plain.returncode) == (0, 0), changed.stderr + plain.stderr
    assert changed.stdout == plain.stdout
    assert '["place", "Place", "place"]' in plain.stdout


USE_CIPHERS = """
import sys
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
import cryptography
assert cryptography.__file__.startswith(sys.argv[1])
base = "cryptography.hazmat.primitives.ciphers.base"
assert base not in sys.modules
text = AESGCM(b"k" * 32).encrypt(b"n" * 12, b"text", None)
assert AESGCM(b"k" * 32).decrypt(b"n" * 12, text, None) == b"text"

from cryptography.hazmat.primitives import ciphers
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
encryptor = Cipher(algorithms.AES(b"k" * 32), modes.CTR(b"n" * 16)).encryptor()
assert len(encryptor.update(b"text")) == 4 and base in sys.modules
assert all(getattr(ciphers, name).__name__ == name for name in ciphers.__all__)
assert not hasattr(ciphers, "Nothing")
"""


def test_ciphers_are_imported_when_they_are_used(tmp_path: Path) -> None:
    spec = find_spec("cryptography")
    assert spec is not None and spec.origin is not None
    shutil.copytree(Path(spec.origin).parent, tmp_path / "cryptography")
    omit(tmp_path)
    done = run(USE_CIPHERS, tmp_path)
    assert done.returncode == 0, done.stderr


def test_library_whose_imports_have_changed_is_an_error() -> None:
    name = "pynamodb/connection/base.py"
    with pytest.raises(ValueError, match="does not have once: import sys"):
        defer_imports(name, "import os\n", DEFERRED[name])
