"""Claims on entries of the trash: of several requests for an entry, one restores or deletes it, and the others fail.

A restore holds a lock while it lasts. A deletion only needs it for an entry that has an intent: the entry is being
restored, or was by a process that died.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from hashlib import sha256

from mangrove.core.concurrency import gather_bounded
from mangrove.core.deadlines import TimeBudget
from mangrove.core.problems import EntryNotFound, InUse, Problem
from mangrove.records import trash, trash_claims
from mangrove.records.trash import TrashEntry
from mangrove.records.trash_claims import ClaimResult
from mangrove.tree.lock_leases import open_lock

CLAIM_CONCURRENCY = 16  # entries that are being restored
GONE = "the entry is not in the trash any more"
RESTORING = "the entry is being restored"


@asynccontextmanager
async def lock_entry(entry: TrashEntry) -> AsyncIterator[None]:
    """Lock an entry. Raise InUse if another request takes too long with it."""
    name = sha256(f"trash:{entry.storage_id}:{entry.id}".encode()).hexdigest()
    async with open_lock() as lock:
        await lock.take([name])
        yield


@asynccontextmanager
async def claim_restore(entry: TrashEntry) -> AsyncIterator[None]:
    """Lock an entry, and write that it is being restored. Raise EntryNotFound if it is not in the trash any more."""
    async with lock_entry(entry):
        if not await asyncio.to_thread(trash_claims.claim_restore, entry):
            raise EntryNotFound(GONE)
        yield


async def claim_deletions(entries: Sequence[TrashEntry], budget: TimeBudget | None = None) -> list[Problem | None]:
    """Write that entries are being deleted: they are not listed any more. Return the problem of each that is not.

    With a `budget`, wait for entries that are being restored.
    """
    claims = await asyncio.to_thread(trash_claims.claim_deletions, entries)
    works = [partial(_finish_claim, entry, claim, budget) for entry, claim in zip(entries, claims, strict=True)]
    return await gather_bounded(works, CLAIM_CONCURRENCY)


async def _finish_claim(entry: TrashEntry, claim: ClaimResult, budget: TimeBudget | None) -> Problem | None:
    if claim is not ClaimResult.CONTESTED:
        return None if claim is ClaimResult.TAKEN else EntryNotFound(GONE)
    if budget is None or not budget.get_seconds():
        return InUse(RESTORING)
    try:
        async with lock_entry(entry):
            target = await asyncio.to_thread(trash.find_restore_target, entry) if entry.is_moved else ""
            if target:
                return InUse(RESTORING)  # a task continues
            (claim,) = await asyncio.to_thread(partial(trash_claims.claim_deletions, [entry], is_locked=True))
    except Problem as problem:
        return problem
    return None if claim is ClaimResult.TAKEN else EntryNotFound(GONE)
