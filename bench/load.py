"""Requests per second, measured by wrk."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import Any

from bench.rows import Workspace
from bench.subjects import Subject

CONNECTIONS = 8
WARM_UP_SECONDS = 1
CHECK = """
function response(status, headers, body)
  if not body:find('"code":200', 1, true) then io.stderr:write(body, "\\n") wrk.thread:stop() end
end
"""


def describe_client() -> str:
    """Return a description of the client. Raise RuntimeError if it is not installed."""
    if not shutil.which("wrk"):
        raise RuntimeError("requests per second are measured by wrk, which is not installed (Debian's package wrk)")
    return f"wrk, {CONNECTIONS} connections"


def measure_rate(workspace: Workspace, subject: Subject, url: str, is_checked: bool = False, **body: Any) -> float:
    """Repeat a POST to a URL path, or a GET without a body, on CONNECTIONS connections. Return the requests per second.

    Raise RuntimeError for an answer whose status is not 2xx, or, with `is_checked`, whose envelope is not a success.
    """
    if url.startswith("/api/"):
        subject.ask(url, **body)  # which raises unless it succeeds
    script = workspace.folder / "wrk.lua"
    script.write_text(_make_script(subject.token, body) + (CHECK if is_checked else ""))
    for seconds in (WARM_UP_SECONDS, workspace.seconds):
        command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "-s", str(script), subject.address + url]
        result = subprocess.run(command, capture_output=True, text=True, check=True)
        rate = re.search(r"Requests/sec:\s+([\d.]+)", result.stdout)
        if not rate or result.stderr or "Non-2xx" in result.stdout or "Socket errors" in result.stdout:
            raise RuntimeError(result.stdout + result.stderr[:500])
    return float(rate[1])


def _make_script(token: str, body: dict[str, Any]) -> str:
    lines = [f'wrk.headers["authorization"] = {json.dumps(token)}']
    if body:
        lines += ['wrk.method = "POST"', 'wrk.headers["content-type"] = "application/json"']
        lines.append(f"wrk.body = {json.dumps(json.dumps(body))}")
    return "\n".join(lines) + "\n"
