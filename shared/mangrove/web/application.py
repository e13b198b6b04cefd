"""An application as a function of the cloud: the adapter to Lambda."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from mangum import Mangum

from mangrove.configuration import snapshot
from mangrove.core import deadlines
from mangrove.core.telemetry import log_exception, log_warning, name_invocation
from mangrove.web.events import REFUSED_EVENT, BadEvent, check_event
from mangrove.web.front import Front

ANSWER_SECONDS = 1.0  # of a function's time that are left for the answer that it was not enough


def make_lambda_handler(app: Front) -> Callable[[Any, Any], Any]:
    """The entry point of a function in the cloud.

    The adapter is made for each event: it keeps nothing, and it touches the event loop, which an import must not.
    """
    snapshot.load_early()

    def handler(event: Any, context: Any) -> Any:
        try:
            check_event(event)
            with deadlines.limit(_get_seconds(context)):
                return Mangum(app, lifespan="off")(_quote_path(event), context)
        except BadEvent as reason:
            log_warning("an event that is not the HTTP API's", reason=str(reason))
        except Exception:  # of the adapter, which takes an event for granted: what the application raises is answered
            log_exception("an event cannot be read")
        return REFUSED_EVENT

    return name_invocation(handler)


def _get_seconds(context: Any) -> float:
    """How long the function may work for a request, so that there is time left to answer."""
    get_milliseconds = getattr(context, "get_remaining_time_in_millis", None)
    return math.inf if get_milliseconds is None else get_milliseconds() / 1000 - ANSWER_SECONDS


def _quote_path(event: Any) -> Any:
    """The event with its path percent-encoded. An HTTP API delivers it decoded, and the adapter decodes it again."""
    match event:
        case {"requestContext": {"http": {"path": str(path)} as http} as about}:
            return event | {"requestContext": about | {"http": http | {"path": quote(path)}}}
    return event
