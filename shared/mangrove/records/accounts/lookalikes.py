"""When two names look alike (UTS 39)."""

from __future__ import annotations

import unicodedata

from mangrove.records.accounts.confusables import ASCII_LOOK_ALIKES, LOOK_ALIKES

_FROM_OTHERS = str.maketrans({look: text for text, looks in LOOK_ALIKES.items() for look in looks})
_FROM_ASCII = str.maketrans(ASCII_LOOK_ALIKES)


def make_skeletons(name: str) -> tuple[str, str]:
    """Two texts, of which names that look alike share one, the first or the second: as it looks, and as it looks
    without regard to case."""
    shown = unicodedata.normalize("NFKD", " ".join(unicodedata.normalize("NFKD", name).translate(_FROM_OTHERS).split()))
    return shown.translate(_FROM_ASCII), shown.casefold()
