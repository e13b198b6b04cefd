"""FastAPI's models are built when they are used; no others are put off."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
from mangrove.web import framework
from fastapi.openapi.models import Info
from fastapi.sse import ServerSentEvent
from pydantic import BaseModel, ConfigDict
print("put off:", Info.__pydantic_complete__, ServerSentEvent.__pydantic_complete__)

class Body(BaseModel):
    number: int
print("ours:", Body.__pydantic_complete__, BaseModel.model_config)

print(Info(title="t", version="1").model_dump(exclude_none=True))
try:
    ServerSentEvent(id="a\\0b")
except ValueError as error:
    print("refused")
print("used:", Info.__pydantic_complete__, ServerSentEvent.__pydantic_complete__)
"""
EXPECTED = """
put off: False False
ours: True {}
{'title': 't', 'version': '1'}
refused
used: True True
"""


def test_models_of_fastapi_are_built_with_their_first_use() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout == EXPECTED.lstrip()
