"""Calls of AWS services by functions without botocore.

The import of botocore and the clients of two services take a quarter of the CPU of a cold start. A call that fails is
left to botocore, and so are all calls in an environment that has more than the credentials and the region of a
function: see `is_supported`.
"""

from __future__ import annotations

import hashlib
import os
import re
import ssl
import threading
from collections.abc import Mapping
from contextlib import closing
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import orjson
from botocore.exceptions import ClientError

from mangrove.core import aws
from mangrove.core.config import config
from mangrove.core.http_connections import HttpConnections, make_connections
from mangrove.core.signatures import Credentials, Signer

ACCESS_KEY_ID, SECRET_ACCESS_KEY, SESSION_TOKEN = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"
REGIONS = r"(af|ap|ca|eu|il|me|mx|sa|us)(-gov)?-[a-z]+-\d"  # whose endpoints are in DOMAIN, see `aws.PARTITIONS`
DOMAIN = "amazonaws.com"
UNSUPPORTED = (  # variables of the environment that change the server, its certificates or the credentials
    "AWS_CA_BUNDLE", "AWS_CONFIG_FILE", "AWS_CREDENTIAL_EXPIRATION", "AWS_DEFAULT_PROFILE",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_USE_DUALSTACK_ENDPOINT",
    "AWS_USE_FIPS_ENDPOINT", "REQUESTS_CA_BUNDLE",
)  # fmt: skip
NOT_FOUND = "ResourceNotFoundException"
MAX_ANSWER_BYTES = 64 << 20  # DynamoDB answers with at most 16 MB
TRACE = "_X_AMZN_TRACE_ID"  # of the invocation, in the environment


class Service(NamedTuple):
    """A service of AWS that receives JSON."""

    name: str
    target: str
    """The name of the service before that of an operation."""
    content_type: str
    endpoint_variable: str
    """The variable of the environment with the address of the service, if it is not that of AWS."""
    connect_seconds: float
    read_seconds: float


RECORDS = Service("dynamodb", "DynamoDB_20120810", "application/x-amz-json-1.0", "AWS_ENDPOINT_URL_DYNAMODB", 2, 5)
SECRETS = Service(
    "secretsmanager", "secretsmanager", "application/x-amz-json-1.1", "AWS_ENDPOINT_URL_SECRETS_MANAGER", 5, 10
)


class ServerAddress(NamedTuple):
    """The address of a server."""

    scheme: str
    host: str
    port: int | None
    netloc: str


class ServiceAnswer(NamedTuple):
    """The answer to a call."""

    status: int
    headers: Mapping[str, str]
    """With names in lower case."""
    content: bytes


def is_supported() -> bool:
    """Return True if calls of this process may go without botocore."""
    is_plain = not any(os.environ.get(name) for name in UNSUPPORTED)
    has_keys = bool(os.environ.get(ACCESS_KEY_ID) and os.environ.get(SECRET_ACCESS_KEY))
    is_snapshot = os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") == "snap-start"  # has other credentials afterwards
    settings = config()
    return settings.is_function and not settings.tracing and is_plain and has_keys and not is_snapshot and _has_region()


def _has_region() -> bool:
    return is_usual_region(os.environ.get("AWS_REGION", ""))


def is_usual_region(region: str) -> bool:
    """Return True if the endpoints of a region are in DOMAIN."""
    return re.fullmatch(REGIONS, region) is not None


class ServiceCalls:
    """Sends signed calls to a service, each once, in any thread. `is_supported` must be True."""

    def __init__(self, service: Service) -> None:
        region = os.environ["AWS_REGION"]
        given_url = os.environ.get(service.endpoint_variable) or os.environ.get("AWS_ENDPOINT_URL")
        parts = urlsplit(given_url or f"https://{service.name}.{region}.{DOMAIN}")
        self._service = service
        self.address = ServerAddress(parts.scheme, parts.hostname or "", parts.port, parts.netloc)
        self._path = parts.path or "/"
        self._signer = Signer(service.name, region, read_credentials)
        self._lock = threading.Lock()
        self._connections: HttpConnections | None = None

    def send(self, operation: str, body: bytes) -> ServiceAnswer:
        """Return the answer, also that to a failed call. Raise OSError if there is none."""
        headers = {
            "host": self.address.netloc,
            "content-type": self._service.content_type,
            "x-amz-target": f"{self._service.target}.{operation}",
        }
        signed = self._signer.sign("POST", self._path, {}, headers, hashlib.sha256(body).hexdigest())
        if trace := os.environ.get(TRACE):
            signed["x-amzn-trace-id"] = trace
        with closing(self._connect().send("POST", self._path, signed, body)) as answer:
            return ServiceAnswer(answer.status, answer.headers, answer.read_all(MAX_ANSWER_BYTES))

    def _connect(self) -> HttpConnections:
        """Return the connections, made at the first call: trusted roots take milliseconds to read."""
        with self._lock:
            if self._connections is None:
                is_encrypted = self.address.scheme == "https"
                context = ssl.create_default_context(cafile=aws.find_roots()) if is_encrypted else None
                seconds = (self._service.connect_seconds, self._service.read_seconds)
                self._connections = make_connections(self.address, context, *seconds)
            return self._connections


def read_credentials() -> Credentials:
    """Return the credentials in the environment. `is_supported` must be True."""
    return Credentials(
        os.environ[ACCESS_KEY_ID], os.environ[SECRET_ACCESS_KEY], os.environ.get(SESSION_TOKEN, "")
    )  # fmt: skip


class ServiceClient:
    """Calls a service of AWS, by botocore where a call without it is not supported or has no usable answer."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._calls = ServiceCalls(service) if is_supported() else None

    def call(self, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer. Raise ClientError if the service refuses the call.

        A call may be made twice, so one that writes needs a token or has to have the same result again.
        """
        answer = self._try(operation, orjson.dumps(arguments)) if self._calls is not None else None
        return self._call_botocore(operation, arguments) if answer is None else answer

    def _try(self, operation: str, body: bytes) -> dict[str, Any] | None:
        """Return the answer, None if there is no usable one. Raise ClientError for what does not exist."""
        assert self._calls is not None
        try:
            answer = self._calls.send(operation, body)
        except OSError:
            return None
        if answer.status == HTTPStatus.OK:
            result: dict[str, Any] = orjson.loads(answer.content)
            return result
        failure = describe_failure(answer.status, answer.content)
        if failure["Error"]["Code"] == NOT_FOUND:
            raise ClientError(failure, operation)
        return None

    def _call_botocore(self, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = aws.create_client(self._service.name)._make_api_call(operation, arguments)
        return answer


def describe_failure(status: int, content: bytes) -> dict[str, Any]:
    """Return the answer to a failed call as botocore has it in its exceptions."""
    try:
        details = orjson.loads(content)
    except orjson.JSONDecodeError:
        details = {}
    code = str(details.get("__type", "InternalServerError")).rpartition("#")[2]
    message = details.get("message") or details.get("Message") or ""
    return {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": {}},
    }
