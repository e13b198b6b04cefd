"""Modules of libraries that the build replaces by empty ones, since no function needs them, and imports that it defers.

FastAPI imports its models of OpenAPI documents and the API of OpenTelemetry for each application. Functions write no
document, and `mangrove.web.framework` answers their requests without FastAPI's telemetry. No route reads a form by
Starlette, and PyJWT's client of key sets, which imports that of the standard library, is not used.
PynamoDB imports the client of botocore, which `mangrove.records.store.function_client` needs only for a call that has
failed. Powertools imports JMESPath, which no log line needs, and metrics and traces, which `mangrove.core.telemetry`
imports when they are used. The package of ciphers imports their base, of which AES-GCM uses nothing.

Pydantic describes its schemas by TypedDict, whose creation compiles the annotation of each key; here they are plain
dictionaries. It looks for plugins in all installed packages, and none of a function is one. FastAPI documents each
parameter of its classes by an annotation; these stay texts.

PynamoDB finds the attributes of each class of records by `inspect.getmembers`, which reads every name of the class.
Reading the `vars` of the class and its bases takes a third of that time.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

REPLACED = (
    "fastapi/openapi/models.py", "fastapi/telemetry/_api.py", "fastapi/telemetry/_asgi.py", "starlette/formparsers.py",
)  # fmt: skip
REMOVED = ("opentelemetry", "opentelemetry_api-*.dist-info", "starlette/middleware/opentelemetry.py")
EMPTY_MODULE = '''"""Left out by the build: see deployment/omissions.py."""


class LeftOut:
    """Stands for the classes and functions of this module in imports and annotations."""


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return LeftOut
'''

DEFERRED_MARK = "# Imports are deferred by the build: see deployment/omissions.py\n"
Change = tuple[str, str]
"""A text that a module has once, and that in its place."""

LAST_CONSTANT = "from pynamodb.constants import STRING_SET\n"
TYPED_DICT = """else:
    class TypedDict(dict):
        def __init_subclass__(cls, total=True): ...
        def __new__(cls, *items, **more): return dict(*items, **more)
"""
# the text of Starlette, with its own comments: it is found only if it is exactly the same
PARSE_OPTIONS = """    try:
        try:
            from python_multipart.multipart import parse_options_header
        except ModuleNotFoundError:  # pragma: no cover
            from multipart.multipart import parse_options_header
    except ModuleNotFoundError:  # pragma: no cover
        parse_options_header = None
"""
FIND_MEMBERS = """

def getmembers(cls, predicate):
    members = {name: value for base in reversed(cls.__mro__) for name, value in vars(base).items()}
    return sorted(((name, value) for name, value in members.items() if predicate(value)), key=lambda pair: pair[0])
"""
CIPHERS = """from cryptography.hazmat.primitives._cipheralgorithm import (
    BlockCipherAlgorithm,
    CipherAlgorithm,
)
from cryptography.hazmat.primitives.ciphers.base import (
    AEADCipherContext,
    AEADDecryptionContext,
    AEADEncryptionContext,
    Cipher,
    CipherContext,
)
"""
FIND_CIPHER = """
def __getattr__(name):
    if name not in __all__:
        raise AttributeError(name)
    from cryptography.hazmat.primitives import _cipheralgorithm
    from cryptography.hazmat.primitives.ciphers import base

    return getattr(_cipheralgorithm if hasattr(_cipheralgorithm, name) else base, name)
"""

FIRST_IMPORTS = {  # of the modules of FastAPI whose annotations stay texts
    "applications": "import os\n",
    "param_functions": "import re\n",
    "routing": "import contextlib\n",
}
DEFERRED: Mapping[str, Sequence[Change]] = {
    "pynamodb/_util.py": ((LAST_CONSTANT, LAST_CONSTANT + FIND_MEMBERS),),
    **{
        f"pynamodb/{name}.py": (("from inspect import getmembers\n", "from pynamodb._util import getmembers\n"),)
        for name in ("attributes", "indexes", "models")
    },
    "aws_lambda_powertools/__init__.py": (
        ("from aws_lambda_powertools.metrics import Metrics, single_metric\n", ""),
        ("from aws_lambda_powertools.tracing import Tracer\n", ""),
        ('    "Metrics",\n    "single_metric",\n    "Tracer",\n', ""),
    ),
    "cryptography/hazmat/primitives/ciphers/__init__.py": ((CIPHERS, FIND_CIPHER),),
    "pynamodb/connection/base.py": (
        ("\nimport sys\n", "\nfrom __future__ import annotations\n\nimport sys\n"),
        ("import botocore.config\nimport botocore.client\nimport botocore.exceptions\n", ""),
        ("from botocore.client import ClientError\nfrom botocore.exceptions import BotoCoreError\n",
         "from botocore.exceptions import BotoCoreError, ClientError\n"),
        ("from botocore.session import get_session\n", ""),
        ("from pynamodb.connection._botocore_private import BotocoreBaseClientPrivate\n", ""),
        ("            self._local.session = get_session()\n",
         "            from botocore.session import get_session\n            self._local.session = get_session()\n"),
        ("            config = botocore.client.Config(\n",
         "            import botocore.client\n            config = botocore.client.Config(\n"),
        ("self._client = cast(BotocoreBaseClientPrivate, ", "self._client = cast(Any, "),
    ),
    "pydantic_core/core_schema.py": (("else:\n    from typing import TypedDict\n", TYPED_DICT),),
    "pydantic/plugin/_loader.py": (
        ("from importlib.metadata import entry_points\n", "def entry_points(group):\n    return ()\n"),
    ),
    "jwt/__init__.py": (
        ("from .jwks_client import PyJWKClient\n", ""),
        ('    "PyJWKClient",\n', ""),
    ),
    "starlette/requests.py": ((PARSE_OPTIONS, "    parse_options_header = None\n"),),
    "pydantic/networks.py": (
        ("from importlib.metadata import version\n", ""),
        ("    if not version('email-validator')",
         "    from importlib.metadata import version\n\n    if not version('email-validator')"),
    ),
    **{
        f"fastapi/{name}.py": ((first_import, f"from __future__ import annotations\n\n{first_import}"),)
        for name, first_import in FIRST_IMPORTS.items()
    },
    "fastapi/_form_limits.py": (
        ("_form_limits_adapter = TypeAdapter(_FormLimits)\n", ""),
        ("_form_limits_adapter.validate_python", "TypeAdapter(_FormLimits).validate_python"),
    ),
    "aws_lambda_powertools/logging/logger.py": (
        ("from aws_lambda_powertools.utilities import jmespath_utils\n", ""),
        ("            if correlation_id_path:\n",
         "            if correlation_id_path:\n"
         "                from aws_lambda_powertools.utilities import jmespath_utils\n\n"),
    ),
}  # fmt: skip


def omit(folder: Path) -> None:
    """Replace, change and remove the modules in the folder of a layer, if it has them.

    Raise ValueError if a module does not have the text of an import to defer: then its library has changed.
    """
    for name, changes in DEFERRED.items():
        if (folder / name).exists():
            (folder / name).write_text(defer_imports(name, (folder / name).read_text(), changes))
    for name in REPLACED:
        if (folder / name).exists():
            (folder / name).write_text(EMPTY_MODULE)
    for pattern in REMOVED:
        for path in folder.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def defer_imports(name: str, text: str, changes: Sequence[Change]) -> str:
    """Return the text of a module with its changes, which are made once."""
    if text.startswith(DEFERRED_MARK):
        return text
    for former, replacement in changes:
        if text.count(former) != 1:
            raise ValueError(f"{name} does not have once: {former.strip()}")
        text = text.replace(former, replacement)
    return DEFERRED_MARK + text
