"""The models of the overview for administrators."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from mangrove.web.framework import Model


class OverviewStorage(Model):
    mount_path: str = Field(description="Path at which the storage is mounted.")
    driver: str = Field(description="Name of the driver.")
    status: str = Field(description="`work`, or the reason why the storage does not work.")
    is_enabled: bool = Field(description="False if an administrator has disabled it.")
    is_up: bool = Field(description="True if it worked at its last use.")
    total_bytes: int | None = Field(description="Space of the storage; `null` if it is not known.")
    free_bytes: int | None = Field(description="Free space of the storage; `null` if it is not known.")


class OverviewTasks(Model):
    kind: str = Field(description="Kind of tasks.")
    waiting: int = Field(description="Tasks that wait for a worker.")
    running: int = Field(description="Tasks that run.")
    oldest_seconds: float = Field(description="Age of the oldest of them.")


class OverviewIndex(Model):
    is_enabled: bool = Field(description="True if names are indexed.")
    waiting_changes: int = Field(description="Changes that are not merged yet; at most 1,000 are counted.")
    lag_seconds: float = Field(description="Age of the oldest of them.")


class OverviewFailure(Model):
    kind: str = Field(description="Kind of the task.")
    id: str = Field(description="Id of the task.")
    name: str = Field(description="Name of the task.")
    error: str = Field(description="Reason of the failure.")
    end_time: datetime | None = Field(description="Time when the task ended.")


class OverviewProcess(Model):
    name: str = Field(description="Name of the process.")
    bytes: int = Field(description="Its part of the memory.")


class OverviewMachine(Model):
    connections: int = Field(description="Connections of HTTP clients.")
    event_streams: int = Field(description="Streams of events.")
    sessions: int = Field(description="Sessions that were used in the last ten minutes.")
    total_bytes: int = Field(description="Space of the disk with the data directory.")
    free_bytes: int = Field(description="Free space of that disk.")
    processes: list[OverviewProcess] = Field(description="The processes of the service.")
    requests: int = Field(description="Requests since the start of the service.")
    failed_requests: int = Field(description="Requests among them that failed with a code of 500 and above.")
    warnings: int = Field(description="Warnings in the log since the start of the service.")
    errors: int = Field(description="Errors in the log since the start of the service.")


class ServiceOverview(Model):
    version: str = Field(description="Version of the service.")
    storages: list[OverviewStorage] = Field(description="All storages.")
    tasks: list[OverviewTasks] = Field(description="Unfinished tasks, by kind.")
    index: OverviewIndex = Field(description="The index of names.")
    failures: list[OverviewFailure] = Field(description="The last tasks that failed.")
    machine: OverviewMachine | None = Field(description="Figures of the machine; `null` on AWS.")
