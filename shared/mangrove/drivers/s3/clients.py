"""Clients of S3 servers that storages with equal options share."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from botocore.exceptions import NoCredentialsError

from mangrove.core import aws, aws_calls, runtime
from mangrove.core.aws import AwsSession
from mangrove.core.http_connections import make_connections
from mangrove.core.platform import platform
from mangrove.core.signatures import Credentials, Signer
from mangrove.drivers.s3.options import S3Options
from mangrove.drivers.s3.requests import Requests, find_address, find_usual_address

CONNECTIONS = 32  # of one client that are kept open
CONNECT_SECONDS, READ_SECONDS = 3, 8
ANY_KEY = "-"  # of an object whose address shows that of the bucket


class ClientKey(NamedTuple):
    """The parameters of a client.

    `endpoint` None: AWS itself; `read_seconds`: time limit for an answer.
    """

    endpoint: str | None
    region: str
    access_key_id: str
    secret_access_key: str
    session_token: str
    force_path_style: bool
    user_agent: str
    read_seconds: int

    @property
    def is_of_function(self) -> bool:
        """True if the client has the rights of this function, whose environment needs no botocore to read."""
        is_own = self.endpoint is None and not self.access_key_id and not self.force_path_style
        return is_own and platform().has_cold_starts and aws_calls.is_supported()

    @classmethod
    def of(cls, options: S3Options, endpoint: str | None, read_seconds: int = READ_SECONDS) -> ClientKey:
        """Return the key of a storage's client at `endpoint`."""
        return cls(
            endpoint, options.region or "us-east-1", options.access_key_id, options.secret_access_key,
            options.session_token, options.force_path_style, options.user_agent, read_seconds,
        )  # fmt: skip


class LazyClient:
    """A client of botocore that is made at its first use. That takes long, and most cold starts need none."""

    def __init__(self, make_client: Callable[[], Any]) -> None:
        self._make_client = make_client
        self._lock = threading.Lock()
        self._client: Any = None

    def __getattr__(self, name: str) -> Any:
        with self._lock:
            if self._client is None:
                self._client = self._make_client()
        return getattr(self._client, name)

    def close(self) -> None:
        """Close the connections of the client, if it was made."""
        if self._client is not None:
            self._client.close()


class _Shared:
    """A client, the trusted roots of its connections if it has made any, and the number of its users."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.context: ssl.SSLContext | None = None
        self.users = 0


class Clients:
    """The clients of this process and the one session that made them, as long as a storage uses them.

    A session needs 15 MB (the description of the API), a client of it 0.3 MB. A function has no time to make a session,
    and uses that of the process.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # a session makes clients in one thread at a time
        self._session: AwsSession | None = None
        self._shared: dict[ClientKey, _Shared] = {}

    def __len__(self) -> int:
        return len(self._shared)

    def take(self, key: ClientKey) -> Any:
        """Return the client for `key`; `release` returns it. It may take tens of milliseconds."""
        with self._lock:
            shared = self._shared.get(key)
            if shared is None:
                if self._session is None:
                    self._session = runtime.get(AwsSession) if platform().has_aws_role else AwsSession()
                make_client = partial(_make_client, self._session, key)
                client = LazyClient(make_client) if key.is_of_function else make_client()
                shared = self._shared[key] = _Shared(client)
            shared.users += 1
            return shared.client

    def make_requests(self, key: ClientKey, bucket: str) -> Requests:
        """Return the requests to a bucket that need no botocore, for a key that was taken."""
        with self._lock:
            shared, session = self._shared[key], self._session
            assert session is not None
            address = find_usual_address(key.region, bucket) if key.is_of_function else None
            is_usual = address is not None
            if address is None:
                parameters = {"Bucket": bucket, "Key": ANY_KEY}
                address = find_address(shared.client.generate_presigned_url("head_object", Params=parameters), ANY_KEY)
            if address.scheme == "https" and shared.context is None:
                roots = aws.find_roots() if is_usual else session.find_certificates(key.region, key.endpoint)
                shared.context = ssl.create_default_context(cafile=roots)
            connections = make_connections(address, shared.context, CONNECT_SECONDS, key.read_seconds)
            return Requests(address, Signer("s3", key.region, _get_provider(session, key)), connections, key.user_agent)

    def release(self, key: ClientKey) -> None:
        """End one `take`. Calls in progress continue; the last user closes the idle connections."""
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


def _get_provider(session: AwsSession, key: ClientKey) -> Callable[[], Credentials]:
    """Return the function that gives the credentials of a client: its own, or those of the process."""
    if key.access_key_id:
        credentials = Credentials(key.access_key_id, key.secret_access_key, key.session_token)
        return lambda: credentials
    if key.is_of_function:
        return aws_calls.read_credentials
    provider = session.get_credentials()

    def get_renewed() -> Credentials:
        if provider is None:
            raise NoCredentialsError
        frozen = provider.get_frozen_credentials()
        return Credentials(frozen.access_key, frozen.secret_key, frozen.token or "")

    return get_renewed


def _make_client(session: AwsSession, key: ClientKey) -> Any:
    from botocore.config import Config as ClientConfig

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
