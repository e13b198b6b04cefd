"""Every shell block of the README and of the pages under docs/, run against a running service.

The blocks of a page run in their order in one shell, from the root of the checkout. `M` and `TOKEN` are set, as the
quickstart sets them, and `MANGROVE_DATA` names the data directory. A line whose answer is a failure on purpose ends
with a comment such as `# answers 403`. `make` is run with `-n`: it proves that the target and its files exist. A
`mangrove serve` runs for a few seconds on a data directory of its own. A `sleep` lasts until the service has done what
it was told.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from mangrove.tasks.core.registry import KINDS
from tests import servers
from tests.support.service import ADMIN_PASSWORD, run_service

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
QUICKSTART = ROOT / "docs" / "quickstart.md"
PAGES = sorted(page for page in DOCUMENTS if "```bash" in page.read_text() and page != QUICKSTART)
END_OF_LINE = "--- end of line"
SERVE_SECONDS = 4
SETTLE = f"""
is_idle() {{
  for kind in {" ".join(kind for kind in KINDS if kind != "index")}; do
    curl -s $M/api/task/$kind/undone -H "Authorization: $TOKEN" | grep -qE '"data":(null|\\[\\])' || return 1
  done
  curl -s $M/api/admin/index/progress -H "Authorization: $TOKEN" | grep -q '"is_done":true'
}}
settle() {{ until is_idle; do sleep 0.1; done; }}
"""
WAIT_FOR_PORT = "; until (: </dev/tcp/127.0.0.1/{port}) 2>/dev/null; do sleep 0.1; done"
SFTP_PORT = "5222"  # in the pages
EXPECTED_FAILURE = re.compile(r"# answers (\d+)$")


@dataclass(frozen=True)
class Result:
    """A line of a block, its exit status and what it printed."""

    line: str
    status: int
    output: str

    @property
    def code(self) -> int | None:
        """The code of the envelope, where the answer is one."""
        if not self.output.startswith('{"code"'):
            return None
        return int(json.loads(self.output)["code"])

    @property
    def expected_code(self) -> int:
        match = EXPECTED_FAILURE.search(self.line)
        return int(match[1]) if match else 200


def list_lines(page: Path) -> list[str]:
    """Return the commands of a page's blocks; one that goes on behind a backslash is one line."""
    blocks = re.findall(r"^```bash\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    text = "".join(blocks).replace("\\\n", " ")
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


def fill_in(line: str, values: dict[str, str], home: Path, sftp_port: str, opens_port: bool) -> str:
    """Put in what a reader would: addresses, passwords, folders."""
    for name, value in values.items():
        line = re.sub(rf"(?<![\w\\])\b{name}=('[^']*'|\S+)", f"{name}='{value}'", line)
    line = re.sub(r"/tmp\b", str(home), line).replace(SFTP_PORT, sftp_port)
    line = re.sub(r"^make\b", "make -n", line)
    if line.startswith("sleep "):
        line += "; settle"
    if line.startswith("sleep ") and opens_port:
        line += WAIT_FOR_PORT.format(port=sftp_port)
    if "mangrove serve" in line:
        line = f"timeout {SERVE_SECONDS} env {line} --port 0 --data {home}/other; test $? = 124"
    return line


def run_page(page: Path, home: Path) -> list[Result]:
    """Run the blocks of a page; one result for each line."""
    lines = list_lines(page)
    with ExitStack() as stack:
        service = stack.enter_context(run_service(home / "data"))
        values = {"M": service.address, "PASSWORD": ADMIN_PASSWORD}
        if any("S3_" in line for line in lines):
            endpoint = stack.enter_context(servers.moto_s3())
            values |= {
                "S3_ENDPOINT": endpoint,
                "S3_BUCKET": servers.make_bucket(endpoint),
                "S3_KEY": servers.KEYS["access_key_id"],
                "S3_SECRET": servers.KEYS["secret_access_key"],
            }
        sftp_port = str(servers.free_port())
        opens_port = any(SFTP_PORT in line for line in lines)
        commands = [fill_in(line, values, home, sftp_port, opens_port) for line in lines]
        script = SETTLE + "".join(f"{command}\nprintf '\\n{END_OF_LINE} %s\\n' $?\n" for command in commands)
        token = service.client().token
        environment = os.environ | values | {"TOKEN": token, "HOME": str(home), "MANGROVE_DATA": str(home / "data")}
        environment["PATH"] = f"{ROOT / '.venv' / 'bin'}:{environment['PATH']}"
        shell = subprocess.run(
            ["bash", "-u", "-c", script], capture_output=True, text=True, timeout=300, env=environment, cwd=ROOT,
        )  # fmt: skip
    outputs = re.findall(rf"(.*?)\n{END_OF_LINE} (\d+)\n", shell.stdout, re.DOTALL)
    assert len(outputs) == len(lines), (shell.stdout[-2000:], shell.stderr)
    return [Result(line, int(status), text.strip()) for line, (text, status) in zip(lines, outputs, strict=True)]


def check(results: list[Result]) -> None:
    """Fail on the first line that does not do what its page says."""
    for result in results:
        assert result.status == 0, result
        assert result.code in (None, result.expected_code), result


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_line_of_a_page_works(page: Path, tmp_path: Path) -> None:
    check(run_page(page, tmp_path))


def test_quickstart_shows_what_its_lines_do(tmp_path: Path) -> None:
    results = run_page(QUICKSTART, tmp_path)
    check(results)
    outputs = [result.output for result in results]
    assert "Hello, tree" in outputs and "Hello" in outputs
    for kind in ("copy", "decompress"):
        line = f"task/{kind}/done"
        (task,) = next(json.loads(result.output)["data"] for result in results if line in result.line)
        assert task["state"] == "succeeded"
