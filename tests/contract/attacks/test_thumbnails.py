"""Attack 38: pictures that unpack to far more than they are, pictures in other files, and programs behind them."""

from __future__ import annotations

import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from PIL import Image

from tests.contract.api import fixtures
from tests.contract.api.download_client import check_page, make_signature, make_url, read_key
from tests.support.service import Client, Service
from tests.unit.drivers.local.test_decoder import make_png

TOO_LARGE = "the picture is too large for a thumbnail"
MEGABYTES = 150  # that the service may grow by; one of these bombs took 649


def read_peak(service: Service) -> int:
    """The most memory that a process of the service itself has had, in MiB."""
    texts = [Path(f"/proc/{pid}/status").read_text() for pid in service.list_servers()]
    return max(int(line.split()[1]) >> 10 for text in texts for line in text.splitlines() if line.startswith("VmHWM"))


def make_icon(inner: bytes) -> bytes:
    return struct.pack("<HHHBBBBHHII", 0, 1, 1, 0, 0, 0, 0, 1, 32, len(inner), 22) + inner


@pytest.fixture(scope="module")
def bombs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bombs")
    icon = make_icon(make_png(13000, 13000, rows=1))
    (folder / "icon.ico").write_bytes(icon)
    (folder / "icon.png").write_bytes(icon)
    (folder / "giant.png").write_bytes(make_png(20000, 20000, rows=1))
    (folder / "eps.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n")
    (folder / "legal.png").write_bytes(make_png(5000, 5000))
    Image.new("RGB", (10, 10)).save(folder / "canvas.webp")
    webp = bytearray((folder / "canvas.webp").read_bytes())
    webp[12:20] = b"VP8X" + struct.pack("<I", 10)
    webp[20:30] = bytes(4) + (16383).to_bytes(3, "little") * 2
    (folder / "canvas.webp").write_bytes(webp)
    Image.new("L", (16, 16)).save(folder / "frame.gif")
    gif = bytearray((folder / "frame.gif").read_bytes())
    at = gif.index(b",", 13)
    gif[at + 5 : at + 9] = struct.pack("<HH", 65535, 65535)
    (folder / "frame.gif").write_bytes(gif)
    Image.new("RGB", (600, 300), "teal").save(folder / "small.png")
    return folder


MESSAGES = {
    "icon.ico": "the storage cannot do this", "icon.png": "not a picture",
    "eps.png": "not a picture", "giant.png": TOO_LARGE,
    "canvas.webp": TOO_LARGE, "frame.gif": TOO_LARGE,
}  # fmt: skip


def test_no_bomb_takes_the_memory_of_the_service(service: Service, admin: Client, bombs: Path) -> None:
    key, before = read_key(admin), read_peak(service)
    visitor = service.anonymous()
    with fixtures.local(admin, bombs, addition={"thumbnail": True}) as path:

        def ask(name: str) -> None:
            address = make_url("d", f"{path}/{name}", make_signature(key, f"{path}/{name}")) + "&type=thumb"
            answer = visitor.http.get(address)
            if name in MESSAGES:
                check_page(answer, 500, MESSAGES[name])
            else:
                assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")

        with ThreadPoolExecutor(8) as pool:
            for _ in pool.map(ask, [*MESSAGES, "legal.png", *["small.png"] * 8, *MESSAGES]):
                pass
    assert read_peak(service) - before < MEGABYTES
