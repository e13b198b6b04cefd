"""Administration of storages and the forms of their drivers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from mangrove.drivers import registry
from mangrove.problems import Missing
from mangrove.tree import administration
from mangrove.web import models
from mangrove.web.api import Api, make_lambda_handler
from mangrove.web.binding import Id, RequiredText, require_fields
from mangrove.web.envelope import Reply, ok
from mangrove.web.gates import Admin, Page

api = Api("storages")


@api.get("/api/admin/storage/list", data_model=models.Rows[models.StorageRow])
async def list_(who: Admin, page: Page) -> Reply:
    rows, total = await administration.list_page(page.slice)
    return ok({"content": rows, "total": total})


@api.get("/api/admin/storage/get", data_model=models.StorageRow)
def get(who: Admin, id: Id) -> Reply:
    return ok(asdict(administration.get(id)))


def _dump_fields(body: models.StorageReq) -> dict[str, Any]:
    require_fields("Storage", MountPath=body.mount_path)
    return body.model_dump(exclude={"id", "status"})


@api.post("/api/admin/storage/create", data_model=models.Id)
async def create(who: Admin, body: models.StorageReq) -> Reply:
    return ok({"id": await administration.create(_dump_fields(body))})


@api.post("/api/admin/storage/update", data_model=models.Id)
async def update(who: Admin, body: models.StorageReq) -> Reply:
    return ok({"id": await administration.update(body.id, _dump_fields(body))})


@api.post("/api/admin/storage/delete")
async def delete(who: Admin, id: Id) -> Reply:
    await administration.delete(id)
    return ok()


@api.post("/api/admin/storage/enable")
async def enable(who: Admin, id: Id) -> Reply:
    await administration.enable(id)
    return ok()


@api.post("/api/admin/storage/disable")
async def disable(who: Admin, id: Id) -> Reply:
    await administration.disable(id)
    return ok()


@api.post("/api/admin/storage/load_all")
async def load_all(who: Admin) -> Reply:
    await administration.load_all()
    return ok()


@api.get("/api/admin/driver/list", data_model=dict[str, models.Template])
def drivers(who: Admin) -> Reply:
    return ok({name: registry.build_template(name) for name in registry.list_names()})


@api.get("/api/admin/driver/names", data_model=list[str])
def driver_names(who: Admin) -> Reply:
    return ok(registry.list_names())


@api.get("/api/admin/driver/info", data_model=models.Template)
def driver_info(who: Admin, driver: RequiredText = "") -> Reply:
    if driver not in registry.list_names():
        raise Missing(f"driver [{driver[:100]}] not found")
    return ok(registry.build_template(driver))


app = api.app
handler = make_lambda_handler(app)
