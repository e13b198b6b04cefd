"""The conditions of requests that a server supports: to replace nothing, to copy one version.

They are probed once and remembered.
"""

from __future__ import annotations

import asyncio
import time
from secrets import token_hex
from typing import NamedTuple
from urllib.parse import urlsplit

from mangrove.core.problems import EntryChanged, StorageProblem, Unreachable
from mangrove.drivers.s3.client import S3Client
from mangrove.drivers.s3.options import S3Options, parse_endpoint

ABSENT = {"IfNoneMatch": "*"}  # only if the key is free
NO_ETAG = f'"{"0" * 32}"'  # that no object has
TRIAL = ".mangrove-"  # prefix of the keys of trials
TRIAL_SECONDS = 600.0  # after which a trial, or its process, has ended
RETRY_TRIAL_AFTER_SECONDS = 60.0  # before a trial that failed is made again
AWS = (".amazonaws.com", ".amazonaws.com.cn")


class Refusals(NamedTuple):
    """The conditions that the server honours on a taken key: `puts` means completed uploads as well.

    `versions`: it copies no object with another ETag than requested.
    """

    puts: bool
    copies: bool
    versions: bool = False


class ConditionSupport:
    """The support of a storage's server for `If-None-Match: *`, and for the ETag of the source of a copy.

    AWS supports both; many other servers ignore them.
    """

    def __init__(self, api: S3Client, options: S3Options, prefix: str) -> None:
        self._api = api
        self._prefix = prefix
        self._asking = asyncio.Lock()
        host = urlsplit(parse_endpoint(options.endpoint) or "https://s3.amazonaws.com").hostname or ""
        self._refusals = Refusals(True, True, True) if host.endswith(AWS) else None
        self._failed_until = 0.0  # of time.monotonic

    async def ask(self) -> Refusals:
        """Return the answer, tried out with temporary keys at the first call.

        A server that does not answer or refuses to write is tried again after a while.
        """
        async with self._asking:
            if self._refusals is None and time.monotonic() >= self._failed_until:
                try:
                    self._refusals = await self._try_out()
                except StorageProblem:
                    self._failed_until = time.monotonic() + RETRY_TRIAL_AFTER_SECONDS
            return self._refusals or Refusals(False, False)

    def forget_copies(self) -> None:
        """Record that the server does not support a condition on a copy after all."""
        self._refusals = Refusals(self._refusals is not None and self._refusals.puts, False, False)

    async def _try_out(self) -> Refusals:
        await self._abort_earlier()
        key = f"{self._prefix}{TRIAL}{token_hex(8)}"
        source = {"Bucket": self._api.bucket, "Key": f"{key}-source"}
        try:
            await self._api("put_object", Key=key, Body=b"")
            if not await self._is_refused("put_object", Key=key, Body=b"", **ABSENT) or not await self._refuses_uploads(
                key
            ):
                return Refusals(False, False)
            # it has to accept a request without a conflict
            await self._api("put_object", Key=source["Key"], Body=b"", **ABSENT)
            copied = {"Key": key, "CopySource": source}
            versions = await self._is_refused("copy_object", **copied, CopySourceIfMatch=NO_ETAG)
            return Refusals(True, await self._is_refused("copy_object", **copied, **ABSENT), versions)
        finally:
            for trial_key in (key, source["Key"]):
                await self._drop(trial_key)

    async def _abort_earlier(self) -> None:
        """Drop the uploads of trials whose process was killed; a young one may be in progress elsewhere."""
        try:
            listed = await self._api("list_multipart_uploads", Prefix=self._prefix + TRIAL)
        except Unreachable:
            raise
        except StorageProblem:
            return  # some servers cannot say
        for upload in listed.get("Uploads", ()):
            if time.time() - upload["Initiated"].timestamp() > TRIAL_SECONDS:
                await self._api("abort_multipart_upload", Key=upload["Key"], UploadId=upload["UploadId"])

    async def _is_refused(self, operation: str, **arguments: object) -> bool:
        try:
            await self._api(operation, **arguments)
        except EntryChanged:
            return True
        except Unreachable:
            raise
        except StorageProblem:
            return False  # it does not know the condition
        return False

    async def _refuses_uploads(self, key: str) -> bool:
        upload = str((await self._api("create_multipart_upload", Key=key))["UploadId"])
        part = await self._api("upload_part", Key=key, UploadId=upload, PartNumber=1, Body=b"x")
        parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
        arguments = {"Key": key, "UploadId": upload}
        is_refused = await self._is_refused("complete_multipart_upload", **arguments, MultipartUpload=parts, **ABSENT)
        if is_refused:
            await self._api("abort_multipart_upload", **arguments)
        return is_refused

    async def _drop(self, key: str) -> None:
        try:
            await self._api("delete_object", Key=key)
        except StorageProblem:
            pass  # the result of the trial is known already
