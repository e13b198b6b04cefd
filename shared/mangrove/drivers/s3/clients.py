"""boto3 clients of S3 servers, shared by the storages whose options are equal."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

from botocore.config import Config as ClientConfig

from mangrove.core import runtime
from mangrove.core.aws import AwsSession
from mangrove.core.platform import platform
from mangrove.drivers.s3.options import S3Options

CONNECTIONS = 32  # of one client that are kept open
CONNECT_SECONDS, READ_SECONDS = 3, 8


class ClientKey(NamedTuple):
    """All that makes one client differ from another. `endpoint` None: AWS itself; `read_seconds`: how long an answer
    may take."""

    endpoint: str | None
    region: str
    access_key_id: str
    secret_access_key: str
    session_token: str
    force_path_style: bool
    user_agent: str
    read_seconds: int

    @classmethod
    def of(cls, options: S3Options, endpoint: str | None, read_seconds: int = READ_SECONDS) -> ClientKey:
        """The key of a storage's client at `endpoint`."""
        return cls(
            endpoint, options.region or "us-east-1", options.access_key_id, options.secret_access_key,
            options.session_token, options.force_path_style, options.user_agent, read_seconds,
        )  # fmt: skip


class _Shared:
    """A client, and how many take part in it."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.users = 0


class Clients:
    """The clients of this process and the one session that made them, as long as a storage uses them.

    A session costs 15 MB (the description of the API), a client of it 0.3 MB. A function has no time to make one of
    its own, and takes that of the process.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # a session makes clients in one thread at a time
        self._session: AwsSession | None = None
        self._shared: dict[ClientKey, _Shared] = {}

    def __len__(self) -> int:
        return len(self._shared)

    def take(self, key: ClientKey) -> Any:
        """The client for `key`; given back with `release`. May take tens of milliseconds."""
        with self._lock:
            shared = self._shared.get(key)
            if shared is None:
                if self._session is None:
                    self._session = runtime.get(AwsSession) if platform().has_aws_role else AwsSession()
                shared = self._shared[key] = _Shared(_make_client(self._session, key))
            shared.users += 1
            return shared.client

    def release(self, key: ClientKey) -> None:
        """End one `take`. Calls in flight go on; the last one out closes the connections that are idle."""
        with self._lock:
            shared = self._shared[key]
            shared.users -= 1
            if not shared.users:
                del self._shared[key]
                shared.client.close()
            if not self._shared:
                self._session = None

    def close(self) -> None:
        with self._lock:
            for shared in self._shared.values():
                shared.client.close()


def _make_client(session: AwsSession, key: ClientKey) -> Any:
    options = ClientConfig(
        signature_version="s3v4",
        connect_timeout=CONNECT_SECONDS,
        read_timeout=key.read_seconds,
        retries={"total_max_attempts": 2, "mode": "standard"},
        max_pool_connections=CONNECTIONS,
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        user_agent=key.user_agent or None,
        s3={"addressing_style": "path" if key.force_path_style else "auto"},
    )
    return session.create_client(
        "s3",
        key.region,
        endpoint_url=key.endpoint,
        aws_access_key_id=key.access_key_id or None,
        aws_secret_access_key=key.secret_access_key or None,
        aws_session_token=key.session_token or None,
        config=options,
    )
