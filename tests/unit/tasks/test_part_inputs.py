"""A call of the worker of a part without its number is refused by the same words by every worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mangrove.core.problems import Problem
from mangrove.tasks.core.workers import make_handler


@pytest.mark.parametrize("handle", [make_handler("index", "Part"), make_handler("transfer", "Part")])
@pytest.mark.parametrize("event", [{"tid": "x"}, {"tid": "x", "round": 0}, {"tid": "x", "round": "0", "part": 0}])
def test_an_input_that_names_no_part_is_refused(handle: Callable[[Any, Any], Any], event: dict[str, Any]) -> None:
    with pytest.raises(Problem, match="the input names no part"):
        handle(event, None)
