"""Plans: a tool that moves, copies or removes first describes the operation, and performs it in a call with the plan.

A plan is a signed value. It has its expiry, and a signature over the user, the token, the operation with its arguments,
and the state of the entries that it changes. It is valid once.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import time
from collections.abc import Mapping
from typing import Any

import orjson

from mangrove.core.problems import BadRequest
from mangrove.identity.rights import Caller
from mangrove.records.store import counters
from mangrove.records.store.keys import Key, keyring

PLAN_SECONDS = 300
MAX_PLAN_LENGTH = 128  # characters


def make_plan(caller: Caller, operation: Mapping[str, Any]) -> str:
    """Return the id of a plan for an operation, which is JSON."""
    return _sign(caller, operation, int(time.time()) + PLAN_SECONDS)


async def use_plan(caller: Caller, operation: Mapping[str, Any], plan: str) -> None:
    """Use a plan. Raise BadRequest unless it is for this caller, token and operation, is valid, and was not used."""
    end = plan.partition("-")[0]
    is_well_formed = len(plan) <= MAX_PLAN_LENGTH and end.isascii() and end.isdecimal() and len(end) < 16
    expected = _sign(caller, operation, int(end)) if is_well_formed else ""
    if not is_well_formed or not hmac.compare_digest(expected.encode(), plan.encode()):
        raise BadRequest("the plan is not for this operation, or what it changes is different now: request a new plan")
    if int(end) <= time.time():
        raise BadRequest("the plan has expired: request a new plan")
    if not await asyncio.to_thread(counters.claim_once, f"plan#{plan}", PLAN_SECONDS):
        raise BadRequest("the plan was used: request a new plan")


def _sign(caller: Caller, operation: Mapping[str, Any], end: int) -> str:
    text = orjson.dumps([caller.user.id, caller.token_id, end, operation], option=orjson.OPT_SORT_KEYS)
    digest = hmac.digest(keyring().derive(Key.TOKEN, "mcp-plan"), text, "sha256")
    return f"{end}-{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"
