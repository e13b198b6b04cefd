"""Administration of storages and the forms of their drivers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from mangrove.core.paths import TreePath
from mangrove.core.problems import ResourceNotFound
from mangrove.drivers import registry
from mangrove.tasks.index import indexing
from mangrove.tree import administration
from mangrove.web import models
from mangrove.web.api import Api, make_lambda_handler
from mangrove.web.envelope import Reply, ok
from mangrove.web.framework import Id, require_fields, require_in_query
from mangrove.web.gates import Admin, Page

api = Api("storages")
DriverName = Annotated[str, require_in_query("Name of a driver.")]


@api.get("/api/admin/storage/list", data_model=models.Rows[models.ListedStorage])
async def list_(who: Admin, page: Page) -> Reply:
    """List all storages."""
    rows, total = await administration.list_page(page.slice)
    return ok({"content": rows, "total": total})


@api.get("/api/admin/storage/get", data_model=models.StorageRow)
def get(who: Admin, id: Id) -> Reply:
    """Return a storage."""
    return ok(asdict(administration.get(id)))


def _dump_fields(body: models.StorageReq) -> dict[str, Any]:
    require_fields(mount_path=body.mount_path)
    return body.model_dump(exclude={"id", "status"})


@api.post("/api/admin/storage/create", data_model=models.Id)
async def create(who: Admin, body: models.StorageReq) -> Reply:
    """Add a storage. If it does not start, it is stored nevertheless and the failure has its id."""
    async with indexing.follow_changes():
        return ok({"id": await administration.create(who, _dump_fields(body))})


@api.post("/api/admin/storage/update", data_model=models.Id)
async def update(who: Admin, body: models.StorageReq) -> Reply:
    """Replace the record of a storage and restart it."""
    async with indexing.follow_changes():
        return ok({"id": await administration.update(who, body.id, _dump_fields(body))})


@api.post("/api/admin/storage/delete")
async def delete(who: Admin, id: Id) -> Reply:
    """Remove a storage from the tree; its files are not deleted."""
    async with indexing.follow_changes():
        await administration.delete(who, id)
    return ok()


@api.post("/api/admin/storage/enable")
async def enable(who: Admin, id: Id) -> Reply:
    """Start a storage that was disabled."""
    async with indexing.follow_changes():
        await administration.enable(who, id)
    return ok()


@api.post("/api/admin/storage/disable")
async def disable(who: Admin, id: Id) -> Reply:
    """Disable a storage."""
    async with indexing.follow_changes():
        await administration.disable(who, id)
    return ok()


@api.post("/api/admin/storage/load_all")
async def load_all(who: Admin) -> Reply:
    """Restart all storages."""
    await administration.load_all()
    return ok()


@api.post("/api/admin/storage/test", data_model=models.StorageTrial)
async def test(who: Admin, body: models.StorageTrialReq) -> Reply:
    """Start a driver with options that are not stored, and list the folders of a folder of the storage."""
    result = await administration.try_storage(body.driver, body.addition, TreePath(body.folder), who.user.username)
    return ok(asdict(result))


@api.get("/api/admin/driver/list", data_model=dict[str, models.Template])
def drivers(who: Admin) -> Reply:
    """Return the forms of all drivers."""
    return ok({name: registry.build_template(name) for name in registry.list_names()})


@api.get("/api/admin/driver/names", data_model=list[str])
def driver_names(who: Admin) -> Reply:
    """List the names of all drivers."""
    return ok(registry.list_names())


@api.get("/api/admin/driver/info", data_model=models.Template)
def driver_info(who: Admin, driver: DriverName = "") -> Reply:
    """Return the form of a driver."""
    if driver not in registry.list_names():
        raise ResourceNotFound(f"driver [{driver[:100]}] not found")
    return ok(registry.build_template(driver))


@api.get("/api/admin/message/get", data_model=models.Message)
@api.post("/api/admin/message/get", data_model=models.Message)
def get_message(who: Admin) -> Reply:
    """Return a driver's message for the administrator; no driver of this version has messages."""
    return ok({"type": "", "content": ""})


@api.get("/api/admin/message/send")
@api.post("/api/admin/message/send")
def send_message(who: Admin) -> Reply:
    """Answer a driver's message; no driver of this version expects answers."""
    return ok()


app = api.app
handler = make_lambda_handler(app)
