"""The part of answers that both the file routes and the administration describe."""

from __future__ import annotations

from pydantic import Field

from mangrove.web.framework import Model

Ignored = "Accepted and ignored."


class MountDetails(Model):
    total_space: int = Field(description="Total bytes.")
    used_space: int = Field(description="Used bytes.")
    free_space: int = Field(description="Free bytes.")
