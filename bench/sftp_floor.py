"""asyncssh's own SFTP server: `python -m bench.sftp_floor PORT FOLDER AUTHORIZED_KEYS`."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import asyncssh


async def serve(port: int, folder: str, authorized_keys: str) -> None:
    """Serve a folder until the process is ended."""

    def make_sftp(channel: asyncssh.SSHServerChannel[Any]) -> asyncssh.SFTPServer:
        return asyncssh.SFTPServer(channel, chroot=folder.encode())

    host_key = asyncssh.generate_private_key("ssh-ed25519")
    await asyncssh.listen(
        "127.0.0.1", port, server_host_keys=[host_key], authorized_client_keys=authorized_keys, sftp_factory=make_sftp
    )
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), sys.argv[2], sys.argv[3]))
