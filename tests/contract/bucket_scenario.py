"""Changes of the files bucket on their way from S3 over EventBridge and a queue to the function that follows them."""

from __future__ import annotations

import json
from typing import Any

from mangrove.standalone import template
from tests.contract.event_queue import EventQueue
from tests.contract.scenarios import EVENTS, Person


class Deliveries:
    """The rule of the template, with a queue that is read as Lambda reads it, and a rule of a user of the bus."""

    def __init__(self, admin: Person) -> None:
        self.function = admin.cloud.get_function("BucketEventsFunction")
        self.bucket = admin.cloud.refs["Files"]
        self.store = admin.cloud.client("s3")
        resources = template.load_template()["Resources"]
        configuration = resources["Files"]["Properties"]["NotificationConfiguration"]
        assert configuration == {"EventBridgeConfiguration": {"EventBridgeEnabled": True}}
        self.store.put_bucket_notification_configuration(
            Bucket=self.bucket, NotificationConfiguration={"EventBridgeConfiguration": {}}
        )
        pattern = resources["BucketEventsRule"]["Properties"]["EventPattern"]
        assert pattern["detail"]["bucket"]["name"] == [{"Ref": "Files"}]
        pattern = pattern | {"detail": {"bucket": {"name": [self.bucket]}}}
        self._incoming = EventQueue(admin.cloud, pattern, "default")
        announced = {"source": ["mangrove"], "detail-type": ["FileChanged"]}
        self._announced = EventQueue(admin.cloud, announced, admin.cloud.refs["Events"])

    def deliver(self) -> list[dict[str, Any]]:
        """Call the function for all waiting events; twice, as it may happen. Return what was announced by one call."""
        messages = self.take_messages()
        assert self.function({"Records": messages}) == {"batchItemFailures": []}
        announced = self.take_announced()
        assert self.function({"Records": messages}) == {"batchItemFailures": []}
        assert self.take_announced() == announced
        return announced

    def take_messages(self) -> list[dict[str, Any]]:
        """Return the waiting events as Lambda passes them to the function."""
        return [{"messageId": message["MessageId"], "body": message["Body"]} for message in self._incoming.take()]

    def make_message(self, key: str, kind: str = "Object Created", version: str = "") -> dict[str, Any]:
        """Return the event of an object as Lambda passes it; with `version`: of one that was deleted for good."""
        detail: dict[str, Any] = {"bucket": {"name": self.bucket}, "object": {"key": key}}
        if version:
            detail["object"]["version-id"] = version
            detail["deletion-type"] = "Permanently Deleted"
        event = {"detail-type": kind, "time": "2026-11-21T07:00:00Z", "detail": detail}
        return {"messageId": "1", "body": json.dumps(event)}

    def take_announced(self) -> list[dict[str, Any]]:
        """Return the details of the events on the bus since the last call, by path."""
        return sorted(self._announced.take_details(), key=lambda detail: (detail["path"], detail["change"]))

    def send_sample(self, name: str) -> Any:
        text = (EVENTS / f"bucket_events/{name}.json").read_text()
        return self.function(json.loads(text.replace("{{bucket}}", self.bucket)))


def run(admin: Person) -> None:
    """Another program stores and removes an object: the search finds it, and finds it no more."""
    deliveries = Deliveries(admin)
    store = deliveries.store
    store.put_object(Bucket=deliveries.bucket, Key="stowaway/by another program.txt", Body=b"hello")
    (created,) = deliveries.deliver()
    created.pop("time")
    assert created == {"path": "/files/stowaway/by another program.txt", "change": "written", "size": 5}
    assert find(admin, "another program") == ["/files/stowaway/by another program.txt"]
    assert find(admin, "stowaway") == ["/files/stowaway"]
    assert deliveries.send_sample("created") == {"batchItemFailures": []}
    assert [detail["change"] for detail in deliveries.take_announced()] == ["written"]
    store.delete_object(Bucket=deliveries.bucket, Key="stowaway/by another program.txt")
    assert deliveries.send_sample("deleted") == {"batchItemFailures": []}
    assert [detail["change"] for detail in deliveries.take_announced()] == ["removed"]
    assert find(admin, "another program") == find(admin, "stowaway") == []


def find(admin: Person, words: str) -> list[str]:
    """Return the paths in the first storage whose names have these words, in order."""
    body = {"parent": "/files", "keywords": words, "scope": 0, "page": 1, "per_page": 10, "password": ""}
    return sorted(f"{row['parent']}/{row['name']}" for row in admin.gets("search/search", **body)["content"])
