"""Modules of libraries that the build replaces by empty ones, since no function needs them.

FastAPI imports its models of OpenAPI documents and the API of OpenTelemetry for each application. Functions write no
document, and `mangrove.web.framework` answers their requests without FastAPI's telemetry.
"""

from __future__ import annotations

import shutil
from pathlib import Path

REPLACED = ("fastapi/openapi/models.py", "fastapi/telemetry/_api.py", "fastapi/telemetry/_asgi.py")
REMOVED = ("opentelemetry", "opentelemetry_api-*.dist-info", "starlette/middleware/opentelemetry.py")
EMPTY_MODULE = '''"""Left out by the build: see deployment/omissions.py."""


class LeftOut:
    """Stands for the classes and functions of this module in imports and annotations."""


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return LeftOut
'''


def omit(folder: Path) -> None:
    """Replace and remove the modules in the folder of a layer, if it has them."""
    for name in REPLACED:
        if (folder / name).exists():
            (folder / name).write_text(EMPTY_MODULE)
    for pattern in REMOVED:
        for path in folder.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
