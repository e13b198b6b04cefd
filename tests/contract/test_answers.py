"""The answers to very many requests are those that are recorded."""

from __future__ import annotations

from tests.contract import recorded_answers

DIFFERENCE_HINT = "changed: run `.venv/bin/python -m tests.contract.recorded_answers` and look at the difference"


def test_answers_are_as_recorded() -> None:
    answers, recorded = (
        text.splitlines() for text in (recorded_answers.record(), recorded_answers.ANSWERS.read_text())
    )
    different = [pair for pair in zip(answers, recorded, strict=False) if pair[0] != pair[1]]
    assert answers == recorded, (DIFFERENCE_HINT, different[:3])
