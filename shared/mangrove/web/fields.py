"""Types of the fields that bodies of several endpoint groups have, and the shape of a created task.

A group that has no other models of the file routes does not import those: pydantic takes half a millisecond for each.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import FailFast, Field

from mangrove.web.framework import Model

Text = Annotated[str, Field(max_length=4096)]
Count = Annotated[int, Field(ge=-(2**53), le=2**53)]
Path = Annotated[str, Field(max_length=4096, description="Path in the tree, below the caller's root.")]
SourceFolder = Annotated[str, Field(max_length=4096, description="The folder that contains the entries.")]
Password = Annotated[str, Field(max_length=4096, description="The folder's password, if a rule sets one.")]
PageNumber = Annotated[Count, Field(description="Page number, from 1.")]
PageSize = Annotated[Count, Field(description="Entries per page; 0 for all on one page.")]
Overwrite = Annotated[bool, Field(description="Replace an existing entry of that name.")]
MAX_NAMES_PER_REQUEST = 100_000
Names = Annotated[list[Text], Field(max_length=MAX_NAMES_PER_REQUEST), FailFast()]


class CreatedTask(Model):
    id: str = Field(description="Id of the task.")
    name: str = Field(description="Name.")
    state: int = Field(description="State as a number: 0 pending, 1 running, 2 succeeded, 7 failed.")
    status: str = Field(description="Current activity, in words.")
    progress: int = Field(description="Percent done.")
    error: str = Field(description="Reason of the failure; empty if there is none.")


class Stored(Model):
    task: CreatedTask = Field(description="The created task.")
