"""The protocols beside HTTP of the standalone service. A setting has the address of each."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Protocol

from mangrove import configuration
from mangrove.core.telemetry import log_warning

PROTOCOLS: Mapping[str, str] = {"sftp_listen": "mangrove.protocols.sftp.server"}
"""The module with `serve(host, port, data)` by the setting of the address.

It is imported when the protocol is served.
"""

POLL_SECONDS = 0.5  # between two checks of the setting, and of the sessions that have to end
RETRY_SECONDS = 5.0  # before an address that could not be used is tried again


class ProtocolServer(Protocol):
    """A protocol that is served at an address."""

    async def end_revoked(self) -> None:
        """End the connections of users who can no longer use the protocol."""
        ...

    def close(self) -> None:
        """Stop the server and end all connections."""
        ...


class _ServedProtocol:
    """A server of one protocol that follows its setting. `data`: the data directory."""

    def __init__(self, setting: str, module: str, data: Path) -> None:
        self._setting = setting
        self._module = module
        self._data = data
        self._address: tuple[str, int] | None = None
        self._server: ProtocolServer | None = None

    async def run(self) -> None:
        """Follow the setting until cancelled."""
        try:
            while True:
                address = getattr((await configuration.get()).settings, self._setting)
                seconds = POLL_SECONDS
                if address != self._address or (address and self._server is None):
                    self.close()
                    self._address = address
                    if address is not None and not await self._open(*address):
                        seconds = RETRY_SECONDS
                if self._server is not None:
                    await self._server.end_revoked()
                await asyncio.sleep(seconds)
        finally:
            self.close()

    async def _open(self, host: str, port: int) -> bool:
        try:
            self._server = await import_module(self._module).serve(host, port, self._data)
        except OSError as error:
            reason = error.strerror or str(error)
            log_warning("protocol cannot be served", setting=self._setting, address=f"{host}:{port}", reason=reason)
            return False
        return True

    def close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()


async def run(data: Path) -> None:
    """Serve all protocols as their settings say, until cancelled. `data`: the data directory."""
    await asyncio.gather(*(_ServedProtocol(setting, module, data).run() for setting, module in PROTOCOLS.items()))
