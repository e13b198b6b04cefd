"""Administration of settings, the permanent token and the download tools."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from pydantic import Field

from mangrove.problems import BadRequest
from mangrove.site import settings, snapshot, values
from mangrove.tools import registry
from mangrove.web import dialects, models
from mangrove.web.api import Api, lambda_handler
from mangrove.web.binding import Name, whole
from mangrove.web.envelope import Reply, ok
from mangrove.web.gates import Admin, Dialect

api = Api("settings")


def _groups(groups: str, group: str) -> frozenset[int] | None:
    wanted = groups or group
    return frozenset(whole(part.strip()) for part in wanted.split(",")) if wanted else None


@api.get("/api/admin/setting/list", gives=list[models.SettingRow])
def list_(who: Admin, groups: str = "", group: str = "") -> Reply:
    return ok(snapshot.current().settings.records(_groups(groups, group)))


@api.get("/api/admin/setting/get", gives=models.SettingRow | list[models.SettingRow])
def get(who: Admin, key: str = "", keys: str = "") -> Reply:
    now = snapshot.current().settings
    if key or not keys:
        return ok(now.record(key))
    return ok([now.record(one) for one in keys.split(",")])


@api.post("/api/admin/setting/save")
def save(who: Admin, body: Annotated[list[models.SettingReq], Field(max_length=1000)]) -> Reply:
    settings.save({row.key: row.value for row in body})
    return ok()


@api.post("/api/admin/setting/delete", gives=dict[str, Any] | None)
def delete(who: Admin, dialect: Dialect, key: Name = "") -> Reply:
    if not key:
        raise BadRequest("key is required")
    settings.delete(key)
    return ok(dialects.deleted_setting(dialect))


@api.post("/api/admin/setting/default", gives=list[models.SettingRow])
def default(who: Admin, groups: str = "", group: str = "") -> Reply:
    return ok(values.defaults(_groups(groups, group)))


@api.post("/api/admin/setting/reset_token", gives=str)
def reset_token(who: Admin) -> Reply:
    return ok(settings.reset_token())


@api.post("/api/admin/setting/set_aria2", gives=str)
async def set_aria2(who: Admin, body: models.Aria2Req) -> Reply:
    version = await _set_up("aria2", {"aria2_uri": body.uri, "aria2_secret": body.secret})
    return ok(f"aria2 version: {version}")


@api.post("/api/admin/setting/set_qbit", gives=str)
async def set_qbit(who: Admin, body: models.QbitReq) -> Reply:
    await _set_up("qBittorrent", {"qbittorrent_url": body.url, "qbittorrent_seedtime": body.seedtime})
    return ok("ok")


async def _set_up(name: str, values: dict[str, str]) -> str:
    """Store what a download tool needs, then ask its version; it is offered when it answered the last such call."""
    stored = "offline_download_ready"
    ready = set(snapshot.current().settings[stored].split(",")) - {name, ""}
    await asyncio.to_thread(settings.save, values | {stored: ",".join(sorted(ready))})
    version = await registry.make_tool(name, snapshot.current().settings).get_version()
    await asyncio.to_thread(settings.save, {stored: ",".join(sorted(ready | {name}))})
    return version


app = api.app
handler = lambda_handler(app)
