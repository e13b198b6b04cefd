"""The failures of the client."""

from __future__ import annotations

MISSING = frozenset({"NotFound", "NotMounted", "Missing"})
DENIED = frozenset({"Denied", "Forbidden", "Unauthorized"})


class ClientError(Exception):
    """An answer that reports a failure. `code` and `problem` are those of the envelope."""

    def __init__(self, message: str, code: int = 0, problem: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.problem = problem

    @property
    def is_missing(self) -> bool:
        """True if the path or the record does not exist."""
        return self.problem in MISSING

    @property
    def is_denied(self) -> bool:
        """True if the token is not valid, or its user has no right."""
        return self.problem in DENIED or (self.code in (401, 403) and not self.is_name_taken)

    @property
    def is_name_taken(self) -> bool:
        """True if the name is taken."""
        return self.problem in ("Exists", "Collision")


class ConnectionFailed(ClientError):
    """The service does not answer, or what answers is not Mangrove."""


class TaskFailed(ClientError):
    """A task ended without success."""
