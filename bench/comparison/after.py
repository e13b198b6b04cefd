"""Memory of a service after all that came before."""

from __future__ import annotations

from bench.comparison.rows import Place, row
from bench.comparison.subjects import Subject


@row("memory after this bench, per process", "MB", most=1.2)
def after(place: Place, subject: Subject) -> float:
    return subject.weigh() / 1e6
