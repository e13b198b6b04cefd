"""Administration of settings, the permanent token and the download tools."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from pydantic import Field

from mangrove import configuration
from mangrove.configuration import settings, values
from mangrove.core.problems import BadRequest
from mangrove.identity.rights import Caller
from mangrove.tasks.index import indexing
from mangrove.tools import registry
from mangrove.tree import audit
from mangrove.tree.audit import AuditAction
from mangrove.web import flavours, models
from mangrove.web.api import Api, make_lambda_handler
from mangrove.web.envelope import Reply, ok
from mangrove.web.framework import Query, parse_id, require_in_query
from mangrove.web.gates import Admin, RequestFlavour

api = Api("settings")
Groups = Annotated[str, Query(description="Numbers of groups of settings, separated by commas; absent for all groups.")]
Group = Annotated[str, Query(description="Number of a group of settings; used if `groups` is absent.")]
Key = Annotated[str, Query(description="Name of a setting.")]
Keys = Annotated[str, Query(description="Names of settings, separated by commas; used if `key` is absent.")]
ObsoleteKey = Annotated[str, require_in_query("Name of the setting.")]


def _parse_groups(groups: str, group: str) -> frozenset[int] | None:
    numbers = groups or group
    return frozenset(parse_id(part.strip()) for part in numbers.split(",")) if numbers else None


@api.get("/api/admin/setting/list", data_model=list[models.SettingRow])
def list_(who: Admin, groups: Groups = "", group: Group = "") -> Reply:
    """List settings with their values, all or those of certain groups."""
    return ok(configuration.cached().settings.make_records(_parse_groups(groups, group)))


@api.get("/api/admin/setting/get", data_model=models.SettingRow | list[models.SettingRow])
def get(who: Admin, key: Key = "", keys: Keys = "") -> Reply:
    """Return a setting by `key`, or several by `keys`."""
    now = configuration.cached().settings
    if key or not keys:
        return ok(now.make_record(key))
    return ok([now.make_record(name) for name in keys.split(",")])


@api.post("/api/admin/setting/save")
def save(who: Admin, body: Annotated[list[models.SettingReq], Field(max_length=1000)]) -> Reply:
    """Change settings: all of them or, if one is refused, none."""
    was_on = configuration.cached().settings.has_search_index
    settings.save({row.key: row.value for row in body})
    audit.record(who, AuditAction.SETTINGS_SAVE, ", ".join(row.key for row in body))
    if configuration.get_sync().settings.has_search_index != was_on:
        indexing.follow_setting()
    return ok()


@api.post("/api/admin/setting/delete", data_model=dict[str, Any] | None)
def delete(who: Admin, flavour: RequestFlavour, key: ObsoleteKey = "") -> Reply:
    """Delete an obsolete setting."""
    if not key:
        raise BadRequest("key is required")
    settings.delete(key)
    audit.record(who, AuditAction.SETTING_DELETE, key)
    return ok(flavours.format_setting_delete(flavour))


@api.post("/api/admin/setting/default", data_model=list[models.SettingRow])
def default(who: Admin, groups: Groups = "", group: Group = "") -> Reply:
    """List settings with their default values; nothing is changed."""
    return ok(values.make_default_records(_parse_groups(groups, group)))


@api.post("/api/admin/setting/reset_token", data_model=str)
def reset_token(who: Admin) -> Reply:
    """Replace the permanent token; the old token and all links become invalid."""
    token = settings.reset_token()
    audit.record(who, AuditAction.PERMANENT_TOKEN_REPLACE)
    return ok(token)


@api.post("/api/admin/setting/set_aria2", data_model=str)
async def set_aria2(who: Admin, body: models.Aria2Req) -> Reply:
    """Set the address of aria2, and check it by asking for the version."""
    version = await _set_up_tool(who, "aria2", {"aria2_uri": body.uri, "aria2_secret": body.secret})
    return ok(f"aria2 version: {version}")


@api.post("/api/admin/setting/set_qbit", data_model=str)
async def set_qbit(who: Admin, body: models.QbitReq) -> Reply:
    """Set the address of qBittorrent, and check it by signing in."""
    await _set_up_tool(who, "qBittorrent", {"qbittorrent_url": body.url, "qbittorrent_seedtime": body.seedtime})
    return ok("ok")


async def _set_up_tool(who: Caller, name: str, options: dict[str, str]) -> str:
    """Store a download tool's settings and return its version; the tool is offered if it answered the last call."""
    others = configuration.cached().settings.offline_download_ready - {name}
    await asyncio.to_thread(settings.save, options | {"offline_download_ready": ",".join(sorted(others))})
    await asyncio.to_thread(audit.record, who, AuditAction.SETTINGS_SAVE, ", ".join(options))
    version = await registry.make_tool(name, (await configuration.get()).settings).get_version()
    await asyncio.to_thread(settings.save, {"offline_download_ready": ",".join(sorted(others | {name}))})
    return version


app = api.app
handler = make_lambda_handler(app)
