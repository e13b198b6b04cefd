"""Uploads: a raw body or a form, streamed into the storage."""

from __future__ import annotations

from mangrove.identity.rights import Caller
from mangrove.problems import NotSupported
from mangrove.tree import spot, uploads
from mangrove.tree.spot import Spot
from mangrove.web.api import Api, lambda_handler
from mangrove.web.envelope import Reply, ok
from mangrove.web.gates import Writer
from mangrove.web.incoming import Incoming, Sent

api = Api("uploads")


async def _place(who: Caller, sent: Incoming) -> Spot:
    place = await spot.at(who, sent.path)
    if sent.as_task:
        raise NotSupported
    return place


@api.put("/api/fs/put")
async def put(who: Writer, sent: Sent) -> Reply:
    place = await _place(who, sent)
    body, upload = sent.raw()
    await uploads.write(place, body, upload, overwrite=sent.overwrite, hashes=sent.hashes)
    return ok()


@api.put("/api/fs/form")
async def form(who: Writer, sent: Sent) -> Reply:
    place = await _place(who, sent)
    uploads.refuse_form(place)
    body, upload = await sent.form()
    await uploads.write(place, body, upload, overwrite=sent.overwrite, hashes=sent.hashes)
    return ok()


app = api.app
handler = lambda_handler(app)
