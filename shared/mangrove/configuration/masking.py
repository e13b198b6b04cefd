"""Masking of private data in messages, such as addresses, by the setting `privacy_regs`."""

from __future__ import annotations

from mangrove import configuration


def mask_private(message: str) -> str:
    """Return the message with each match of the setting `privacy_regs` replaced by asterisks."""
    if not configuration.is_loaded():
        return message
    for pattern in configuration.cached().settings.privacy_patterns:
        message = pattern.sub(lambda match: "*" * len(match.group()), message)
    return message
