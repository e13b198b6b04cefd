"""The doors beside HTTP on one machine: SFTP is served where the setting `sftp_listen` says."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from mangrove.configuration import snapshot
from mangrove.core.telemetry import log_event, log_warning

if TYPE_CHECKING:
    from mangrove.protocols.sftp.server import SftpConnections, SshAcceptor

LOOK_SECONDS = 0.5  # between two looks at the setting, and at who may stay
AGAIN_SECONDS = 5.0  # until an address that was refused is tried again
SSH_FOLDER = "ssh"  # of the data directory


class Doors:
    """Opens and closes the doors as the settings say. `data`: the data directory."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._address: tuple[str, int] | None = None
        self._acceptor: SshAcceptor | None = None
        self._connections: SftpConnections | None = None

    async def run(self) -> None:
        """Follow the settings until cancelled."""
        try:
            while True:
                wanted = (await snapshot.fresh()).settings.sftp_listen
                seconds = LOOK_SECONDS
                if wanted != self._address or (wanted and self._acceptor is None):
                    await self._close()
                    self._address = wanted
                    if wanted is not None and not await self._open(*wanted):
                        seconds = AGAIN_SECONDS
                if self._connections is not None:
                    await self._connections.end_revoked()
                await asyncio.sleep(seconds)
        finally:
            await self._close()

    async def _open(self, host: str, port: int) -> bool:
        from mangrove.protocols.sftp import server  # what it needs is loaded where the door is wanted
        from mangrove.protocols.sftp.host_key import read_host_key

        key = await asyncio.to_thread(read_host_key, self._data / SSH_FOLDER)
        spool = self._data / "staging"
        spool.mkdir(mode=0o700, exist_ok=True)
        connections = server.SftpConnections(spool)
        try:
            self._acceptor = await server.listen(host, port, key, connections)
        except OSError as error:
            log_warning("SFTP cannot be served", address=f"{host}:{port}", reason=error.strerror or str(error))
            return False
        self._connections = connections
        log_event("SFTP is served", address=f"{host}:{port}", host_key=key.get_fingerprint())
        return True

    async def _close(self) -> None:
        acceptor, self._acceptor = self._acceptor, None
        connections, self._connections = self._connections, None
        if acceptor is not None:
            acceptor.close()
        if connections is not None:
            connections.abort()
