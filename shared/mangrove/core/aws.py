"""Clients of AWS services. They share one botocore session, which reads the descriptions of AWS once.

Their certificates are checked against the few root certificates that AWS uses, if `make build` has stored them beside
this file (`deployment.roots`): reading all roots that a browser trusts takes 40 ms of CPU per connection.
"""

from __future__ import annotations

import os
import threading
from functools import cached_property
from pathlib import Path
from typing import Any
from weakref import WeakSet

from mangrove.core import runtime

ROOTS = Path(__file__).parent / "aws-roots.pem"
PARTITIONS = ("aws", "aws-us-gov")  # whose endpoints have certificates of Amazon Trust Services


class AwsSession:
    """The session of this process. It makes clients in one thread at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clients: WeakSet[Any] = WeakSet()

    @cached_property
    def _session(self) -> Any:
        import botocore.session  # most cold starts need no botocore

        return botocore.session.get_session()

    def create_client(self, service: str, region: str | None = None, **options: Any) -> Any:
        """Return a client of botocore, in the region and with the rights of this process unless `options` override
        them.
        """
        with self._lock:
            region = region or self._session.get_config_variable("region")
            if "verify" not in options and not options.get("endpoint_url"):
                options["verify"] = self._find_roots(region)
            client = self._session.create_client(service, region, **options)
            self._clients.add(client)
            return client

    def close_connections(self) -> None:
        """Close the connections of all clients. They open others when they are used."""
        with self._lock:
            for client in list(self._clients):
                client.close()

    def forget_descriptions(self) -> None:
        """Release the descriptions of AWS, 9 MB. The next client reads them again, existing clients do not."""
        with self._lock:
            self._session.get_component("data_loader")._cache.clear()
            self._session._register_endpoint_resolver()  # whose successor reads the endpoints when it is used

    def get_credentials(self) -> Any:
        """Return the credentials of this process, which renew themselves; None if it has none."""
        return self._session.get_credentials()

    def find_certificates(self, region: str | None, endpoint: str | None) -> str:
        """Return the file of the trusted roots for a server."""
        from botocore.httpsession import where

        roots = None if endpoint else self._find_roots(region)
        return roots or self._session.get_config_variable("ca_bundle") or where()

    def _find_roots(self, region: str | None) -> str | None:
        """Return the file of the roots for the endpoints of AWS in a region, None for the default of botocore."""
        is_elsewhere = any(name.startswith("AWS_ENDPOINT_URL") for name in os.environ)
        if region is None or is_elsewhere or self._session.get_config_variable("ca_bundle") or not ROOTS.exists():
            return None
        return str(ROOTS) if self._session.get_partition_for_region(region) in PARTITIONS else None


def find_roots() -> str:
    """Return the file of the trusted roots for the endpoints of AWS in PARTITIONS."""
    if ROOTS.exists():
        return str(ROOTS)
    from botocore.httpsession import where

    return str(where())


def create_client(service: str, **options: Any) -> Any:
    """Return a client of a service of AWS; see `AwsSession.create_client`."""
    return runtime.get(AwsSession).create_client(service, **options)
