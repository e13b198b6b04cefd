"""What messages must not tell: addresses and whatever else the setting `privacy_regs` names."""

from __future__ import annotations

from mangrove import configuration
from mangrove.core.patterns import compile_pattern


def mask_private(message: str) -> str:
    """`message` with every match of the setting `privacy_regs` replaced by as many stars."""
    if not configuration.is_loaded():
        return message
    for pattern in configuration.cached().settings.privacy_regs.splitlines():
        if pattern.strip():  # RE2 remembers what it compiled
            message = compile_pattern(pattern).sub(lambda match: "*" * len(match.group()), message)
    return message
