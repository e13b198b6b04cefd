"""Errors of aioftp, of connections and of FTP servers as StorageProblem."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import aioftp

from mangrove.core.problems import NotSupported, StorageForbidden, StorageFull, StorageProblem, Unreachable

MAX_ANSWER_CHARACTERS = 200  # of the server, in a message


class TooManyConnections(Unreachable):
    """The server accepts no further connection; one that ends makes room."""


class Refused(StorageForbidden):
    """The server refuses, for a reason that its code does not show: no such file, no permission, or a name in use."""


def get_code(error: aioftp.StatusCodeError) -> str:
    """Return the last code of the server."""
    return str(error.received_codes[-1]) if error.received_codes else ""


def _get_text(error: aioftp.StatusCodeError) -> str:
    """Return the server's text as a user can read it."""
    lines: str | Sequence[str] = error.info
    text = lines if isinstance(lines, str) else " ".join(lines[-1:])
    shown = text.encode("latin-1", "replace").decode("utf-8", "replace")
    return "".join(letter for letter in shown if letter.isprintable()).strip()[:MAX_ANSWER_CHARACTERS]


def make_problem(error: aioftp.StatusCodeError) -> StorageProblem:
    """Return the problem for a reply code of RFC 959, 2228 or 2428."""
    code, text = get_code(error), _get_text(error)
    answer = f"the server answers {code}: {text}"
    if code in ("452", "552"):
        return StorageFull(f"the storage is full ({answer})")
    if code in ("450", "550", "551", "553"):
        return Refused(f"permission denied ({answer})")
    if code in ("430", "530", "532", "534"):
        return StorageForbidden(f"permission denied ({answer})")
    if code in ("500", "501", "502", "504"):
        return NotSupported(answer)
    if code.startswith("4"):
        return Unreachable(answer)
    return StorageProblem(answer)


def make_sign_in_problem(error: aioftp.StatusCodeError, password: str) -> StorageProblem:
    """Return the problem for a sign-in that failed."""
    text = _get_text(error)
    if password and password in text:
        text = "…"
    if get_code(error) == "421":
        return TooManyConnections(f"the server accepts no further connection: {text}")
    if get_code(error).startswith("5"):
        return StorageForbidden(f"the server refuses the sign-in: {text}")
    return Unreachable(f"the server does not sign in: {text}")


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise every failure of FTP as a StorageProblem, without a password in its message."""
    try:
        yield
    except aioftp.StatusCodeError as error:
        raise make_problem(error) from error
    except ssl.SSLCertVerificationError as error:
        raise StorageProblem(f"the server's certificate is not trusted: {error.verify_message}") from error
    except ssl.SSLError as error:
        raise StorageProblem(f"no TLS with the server: {error.reason or 'it ended'}") from error
    except TimeoutError as error:
        raise Unreachable("the FTP server does not answer in time") from error
    except (OSError, EOFError) as error:
        raise Unreachable(f"the FTP server does not answer ({type(error).__name__})") from error
    except (aioftp.AIOFTPException, ValueError, IndexError, OverflowError) as error:
        raise Unreachable("the server's answer is not FTP") from error
