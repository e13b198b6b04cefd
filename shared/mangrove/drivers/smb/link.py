"""smbprotocol's connection, made fit for a service: every answer has a time limit, credits are waited for, no link is
followed by the client, and what ends it is one kind of failure."""

from __future__ import annotations

import threading
import time
from typing import Any
from uuid import uuid4

from smbprotocol import MAX_PAYLOAD_SIZE
from smbprotocol.connection import Connection, Request
from smbprotocol.exceptions import SMBConnectionClosed, SMBException, SMBResponseException
from smbprotocol.header import Commands, NtStatus

from mangrove.core.problems import Unreachable
from mangrove.drivers.smb.messages import Message
from mangrove.drivers.smb.transport import Transport
from mangrove.drivers.threads import is_given_up

OPEN_SECONDS = 10.0  # for each answer while the connection is made
ANSWER_SECONDS = 20.0  # for any other: disks may have slept
PROBE_SECONDS = 60.0  # for the first answer on a new connection, while all others hang
ECHO_SECONDS = 3.0  # for a sign of life, when an answer did not come in time
SESSION_EXPIRED = 0xC000035C
_ENDING = {
    NtStatus.STATUS_USER_SESSION_DELETED, NtStatus.STATUS_NETWORK_NAME_DELETED, NtStatus.STATUS_FILE_CLOSED,
    SESSION_EXPIRED,
}  # fmt: skip


class Link(Connection):  # type: ignore[misc]  # the library has no types
    """A connection to a server. `is_ended`: it must not be used any more."""

    def __init__(self, host: str, port: int) -> None:
        self._transport: Transport | None = None
        self._turn = threading.Lock()
        self._is_lost = False
        self.answer_seconds = OPEN_SECONDS
        super().__init__(uuid4(), host, port, require_signing=True)

    @property
    def transport(self) -> Any:
        return self._transport

    @transport.setter
    def transport(self, given: Any) -> None:
        self._transport = given and Transport(given.server, given.port, given.timeout)

    @property
    def is_ended(self) -> bool:
        return self._is_lost or self._transport is None or not self._transport.connected

    def end(self) -> None:
        """Close the connection; never waits."""
        self._is_lost = True
        if self._transport is not None:
            self._transport.close()

    def _check_worker_running(self) -> None:
        if self.is_ended or self._t_exc is not None:
            self.end()
            raise SMBConnectionClosed("the connection was lost") from self._t_exc

    def _process_message_thread(self) -> None:
        try:
            super()._process_message_thread()
        except RuntimeError:
            pass  # it goes through a dictionary that others change
        finally:
            self._transport.dispose()  # type: ignore[union-attr]  # there is one once the thread runs
            for request in list(self.outstanding_requests.values()):
                request.response_event.set()

    def _calculate_credit_charge(self, message: Any) -> int:
        if isinstance(message, Message):
            return -(-message.payload // MAX_PAYLOAD_SIZE) if self.supports_multi_credit else 0
        charge: int = super()._calculate_credit_charge(message)
        return charge

    def _send(self, messages: Any, *args: Any, **options: Any) -> list[Request]:
        """As the library's, when the server has granted enough credits for it."""
        if is_given_up() and any(message.COMMAND != Commands.SMB2_CLOSE for message in messages):
            raise Unreachable
        charge = sum(max(1, self._calculate_credit_charge(message)) for message in messages)
        end = time.monotonic() + self.answer_seconds
        with self._turn:
            while self.sequence_window["high"] - self.sequence_window["low"] < charge:
                self._check_worker_running()
                if time.monotonic() > end:
                    raise TimeoutError
                time.sleep(0.002)
            requests: list[Request] = super()._send(messages, *args, **options)
            return requests

    def receive(
        self, request: Request, wait: bool = True, timeout: float | None = None, resolve_symlinks: bool = False
    ) -> Any:
        """The answer to a request; TimeoutError when it does not come in time, and the end of the connection if nothing
        else does either."""
        try:
            return super().receive(request, wait, timeout or self.answer_seconds, resolve_symlinks=False)
        except SMBResponseException as error:
            if error.status in _ENDING:
                self._is_lost = True
            raise
        except SMBConnectionClosed:
            raise
        except SMBException as error:
            if request.message["command"].get_value() == Commands.SMB2_ECHO or not self._answers():
                self.end()
            raise TimeoutError from error

    def _answers(self) -> bool:
        try:
            self.echo(sid=next(iter(self.session_table), 0), timeout=ECHO_SECONDS)
            return True
        except (SMBException, OSError):
            return False


def ask_for_life(host: str, port: int) -> None:
    """Return when a server answers a new connection, or does not within PROBE_SECONDS."""
    link = Link(host, port)
    try:
        link.connect(timeout=PROBE_SECONDS)
    finally:
        link.end()
