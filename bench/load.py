"""Requests per second, measured by wrk."""

from __future__ import annotations

import json
import re
import resource
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.rows import Workspace
from bench.subjects import Subject

CONNECTIONS = 8
WARM_UP_SECONDS = 1
_CHECK = """
function response(status, headers, body)
  if not body:find('"code":200', 1, true) then io.stderr:write(body, "\\n") wrk.thread:stop() end
end
"""


@dataclass(frozen=True, slots=True)
class Rate:
    """Requests per second."""

    per_second: float
    client_cores: float  # that the client kept busy


def describe_client() -> str:
    """Return a description of the client. Raise RuntimeError if it is not installed."""
    if not shutil.which("wrk"):
        raise RuntimeError("requests per second are measured by wrk, which is not installed (Debian's package wrk)")
    return f"wrk, {CONNECTIONS} connections"


def measure_rate(workspace: Workspace, subject: Subject, path: str, /, is_checked: bool = False, **body: Any) -> Rate:
    """Repeat a POST, or a GET without a body, on CONNECTIONS connections.

    Raise RuntimeError for an answer whose status is not 2xx, or, with `is_checked`, whose envelope is not a success.
    """
    if path.startswith("/api/"):
        subject.ask(path, **body)  # which raises unless it succeeds
    script = workspace.folder / "wrk.lua"
    script.write_text(_make_script(subject.token, body) + (_CHECK if is_checked else ""))
    _run(script, subject.address + path, WARM_UP_SECONDS)
    return _run(script, subject.address + path, workspace.seconds)


def _make_script(token: str, body: dict[str, Any]) -> str:
    lines = [f'wrk.headers["authorization"] = {json.dumps(token)}']
    if body:
        lines += ['wrk.method = "POST"', 'wrk.headers["content-type"] = "application/json"']
        lines.append(f"wrk.body = {json.dumps(json.dumps(body))}")
    return "\n".join(lines) + "\n"


def _run(script: Path, url: str, seconds: int) -> Rate:
    command = ["wrk", "-t", "1", "-c", str(CONNECTIONS), "-d", f"{seconds}s", "-s", str(script), url]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", result.stdout)
    if not rate or result.stderr or "Non-2xx" in result.stdout or "Socket errors" in result.stdout:
        raise RuntimeError(result.stdout + result.stderr[:500])
    cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Rate(float(rate[1]), cpu_seconds / seconds)
