"""Masking of private data in messages, such as addresses, by the setting `privacy_regs`."""

from __future__ import annotations

from mangrove import configuration
from mangrove.core.patterns import compile_pattern


def mask_private(message: str) -> str:
    """Return the message with each match of the setting `privacy_regs` replaced by asterisks."""
    if not configuration.is_loaded():
        return message
    for pattern in configuration.cached().settings.privacy_regs.splitlines():
        if pattern.strip():  # RE2 caches compiled patterns
            message = compile_pattern(pattern).sub(lambda match: "*" * len(match.group()), message)
    return message
