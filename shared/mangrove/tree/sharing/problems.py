"""Failures of share links."""

from __future__ import annotations

from mangrove.core.problems import Problem, TooLarge


class ShareNotFound(Problem):
    """There is no share link of this id."""

    text = "the share does not exist"


class ShareEnded(Problem):
    """A share link that is disabled or over, or that its owner may not share any more."""

    text = "the share has expired or is no longer valid"


class ShareLimitReached(TooLarge):
    """A share link takes no file of this size or kind, or no more files."""
