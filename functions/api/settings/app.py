"""Administration of settings, the permanent token and the download tools."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from pydantic import Field

from mangrove import configuration
from mangrove.configuration import settings, values
from mangrove.core.problems import BadRequest
from mangrove.tasks.index import indexing
from mangrove.tools import registry
from mangrove.web import dialects, models
from mangrove.web.api import Api, make_lambda_handler
from mangrove.web.binding import RequiredText, parse_id
from mangrove.web.envelope import Reply, ok
from mangrove.web.gates import Admin
from mangrove.web.parameters import RequestDialect

api = Api("settings")


def _parse_groups(groups: str, group: str) -> frozenset[int] | None:
    wanted = groups or group
    return frozenset(parse_id(part.strip()) for part in wanted.split(",")) if wanted else None


@api.get("/api/admin/setting/list", data_model=list[models.SettingRow])
def list_(who: Admin, groups: str = "", group: str = "") -> Reply:
    """Settings with their values, all or those of some groups."""
    return ok(configuration.cached().settings.make_records(_parse_groups(groups, group)))


@api.get("/api/admin/setting/get", data_model=models.SettingRow | list[models.SettingRow])
def get(who: Admin, key: str = "", keys: str = "") -> Reply:
    """One setting by `key`, or several by `keys`."""
    now = configuration.cached().settings
    if key or not keys:
        return ok(now.make_record(key))
    return ok([now.make_record(one) for one in keys.split(",")])


@api.post("/api/admin/setting/save")
def save(who: Admin, body: Annotated[list[models.SettingReq], Field(max_length=1000)]) -> Reply:
    """Change settings; all of them or, when one is refused, none."""
    was_on = configuration.cached().settings.has_search_index
    settings.save({row.key: row.value for row in body})
    if configuration.get_sync().settings.has_search_index != was_on:
        indexing.follow_setting()
    return ok()


@api.post("/api/admin/setting/delete", data_model=dict[str, Any] | None)
def delete(who: Admin, dialect: RequestDialect, key: RequiredText = "") -> Reply:
    """Forget a setting that is of no use any more."""
    if not key:
        raise BadRequest("key is required")
    settings.delete(key)
    return ok(dialects.format_setting_delete(dialect))


@api.post("/api/admin/setting/default", data_model=list[models.SettingRow])
def default(who: Admin, groups: str = "", group: str = "") -> Reply:
    """Settings with the values of a new service; nothing is changed."""
    return ok(values.make_default_records(_parse_groups(groups, group)))


@api.post("/api/admin/setting/reset_token", data_model=str)
def reset_token(who: Admin) -> Reply:
    """Make a new permanent token, which ends the old one and all links."""
    return ok(settings.reset_token())


@api.post("/api/admin/setting/set_aria2", data_model=str)
async def set_aria2(who: Admin, body: models.Aria2Req) -> Reply:
    """Say where aria2 is, and ask it for its version."""
    version = await _set_up_tool("aria2", {"aria2_uri": body.uri, "aria2_secret": body.secret})
    return ok(f"aria2 version: {version}")


@api.post("/api/admin/setting/set_qbit", data_model=str)
async def set_qbit(who: Admin, body: models.QbitReq) -> Reply:
    """Say where qBittorrent is, and sign in there."""
    await _set_up_tool("qBittorrent", {"qbittorrent_url": body.url, "qbittorrent_seedtime": body.seedtime})
    return ok("ok")


async def _set_up_tool(name: str, options: dict[str, str]) -> str:
    """Store a download tool's settings and ask its version; it is offered when it answered the last such call."""
    others = configuration.cached().settings.offline_download_ready - {name}
    await asyncio.to_thread(settings.save, options | {"offline_download_ready": ",".join(sorted(others))})
    version = await registry.make_tool(name, (await configuration.get()).settings).get_version()
    await asyncio.to_thread(settings.save, {"offline_download_ready": ",".join(sorted(others | {name}))})
    return version


app = api.app
handler = make_lambda_handler(app)
