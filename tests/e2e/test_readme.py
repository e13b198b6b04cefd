"""The first five minutes of the README, run as they stand."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

from tests import servers
from tests.support.service import ADMIN_PASSWORD, run_service

README = Path(__file__).resolve().parents[2] / "README.md"


def script(address: str, endpoint: str, bucket: str) -> list[str]:
    """The lines of the README's blocks, with the values that a reader would put in."""
    lines = "\n".join(re.findall(r"```bash\n(.*?)```", README.read_text(), re.DOTALL)).splitlines()
    values = {
        "M": address,
        "PASSWORD": ADMIN_PASSWORD,
        "S3_ENDPOINT": endpoint,
        "S3_BUCKET": bucket,
        "S3_KEY": servers.KEYS["access_key_id"],
        "S3_SECRET": servers.KEYS["secret_access_key"],
    }
    filled = []
    for line in lines:
        for name, value in values.items():
            line = re.sub(rf"\b{name}=('[^']*'|\S+)", f"{name}='{value}'", line)
        filled.append(line.replace("/tmp/mangrove-folder", "$HOME/folder"))
    port = str(servers.free_port())
    return [
        line.replace("5222", port).replace("/tmp/hello", "$HOME/hello").replace("/tmp/bob", "$HOME/bob")
        for line in filled
    ]


def test_every_line_of_the_first_five_minutes_works(tmp_path: Path) -> None:
    with run_service(tmp_path / "data") as service, servers.moto_s3() as endpoint:
        lines = script(service.address, endpoint, servers.make_bucket(endpoint))
        marked = "\n".join(f"{line}\necho; echo '--- end of line'" for line in lines)
        marked = marked.replace("$HOME", str(tmp_path))
        shell = subprocess.run(["bash", "-u", "-c", marked], capture_output=True, text=True, timeout=120)
    assert shell.returncode == 0, shell.stderr
    answers = [answer.strip() for answer in shell.stdout.split("--- end of line")]
    envelopes = [json.loads(answer) for answer in answers if answer.startswith('{"code"')]
    assert len(envelopes) == sum(line.startswith("curl -s $M") or " -T " in line for line in lines)
    assert all(envelope["code"] == 200 for envelope in envelopes), envelopes
    assert "Hello, tree" in answers
    asked = [line.split()[2] for line in lines if line.startswith("curl -s $M") or " -T " in line]
    shown = dict(zip(asked, envelopes, strict=True))
    for kind in ("copy", "decompress"):
        (task,) = shown[f"$M/api/task/{kind}/done"]["data"]
        assert task["state"] == "succeeded"
    assert "Hello" in answers
    data = [envelope["data"] for envelope in envelopes]
    locked = next(one for one in reversed(data) if isinstance(one, dict) and one.get("readme"))
    found = data[-2:]
    assert [entry["name"] for entry in locked["content"]] == ["greeting.txt"]
    assert locked["readme"] == "# Old letters"
    assert "Hello, WebDAV" in answers and "<D:href>/dav/files/hello-dav.txt</D:href>" in shell.stdout
    assert shutil.which("sftp") is None or "bob      mangrove" in shell.stdout
    assert all("greeting.txt" in [hit["name"] for hit in page["content"]] for page in found), found
