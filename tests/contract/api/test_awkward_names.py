"""Names that addresses and gateways trip over, through the service on one machine."""

from __future__ import annotations

import io
import zipfile
from urllib.parse import quote

from tests.contract.api import fixtures
from tests.contract.api.upload_client import send
from tests.support.awkward_names import NAMES
from tests.support.service import Client, Service


def test_every_name_is_stored_and_fetched(service: Service, admin: Client, folder: str) -> None:
    for name in NAMES:
        assert send(admin, "put", f"{folder}/{name}", name.encode())["code"] == 200, name
    rows = admin.ok("/api/fs/list", path=folder)["content"]
    assert sorted(row["name"] for row in rows) == sorted(NAMES)
    for row in rows:
        name = row["name"]
        assert admin.bytes(f"{folder}/{name}").text == name
        for address in (quote(f"{folder}/{name}"), f"/_?path={quote(f'{folder}/{name}', safe='')}"):
            signed = f"{address}{'&' if '?' in address else '?'}sign={row['sign']}"
            for route in "dp":
                answer = admin.http.get(f"/{route}{signed}")
                assert (answer.status_code, answer.text) == (200, name), (route, address)


def test_every_name_in_an_archive_is_fetched(service: Service, admin: Client, folder: str) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in NAMES:
            archive.writestr(f"in/{name}", name)
    path = f"{folder}/what?%41 #.zip"
    fixtures.disk(service, path).write_bytes(content.getvalue())
    meta = admin.ok("/api/fs/archive/meta", path=path)
    for name in NAMES:
        answer = admin.http.get(meta["raw_url"], params={"inner": f"/in/{name}", "sign": meta["sign"]})
        assert (answer.status_code, answer.text) == (200, name), name
