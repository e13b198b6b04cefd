"""Events of a bus in a queue, as a rule of CloudFormation sends them there."""

from __future__ import annotations

import json
import secrets
from typing import Any

from tests.support import lambdas

QUEUE_ARN = "arn:aws:sqs:us-east-1:123456789012:"
MAX_MESSAGES = 10  # of a call


class EventQueue:
    """A queue that receives the events of a bus that match a pattern."""

    def __init__(self, cloud: lambdas.Cloud, pattern: dict[str, Any], bus: str) -> None:
        name, events = f"q{secrets.token_hex(6)}", cloud.client("events")
        self._client = cloud.client("sqs")
        self._url = self._client.create_queue(QueueName=name)["QueueUrl"]
        events.put_rule(Name=name, EventPattern=json.dumps(pattern), EventBusName=bus)
        events.put_targets(Rule=name, EventBusName=bus, Targets=[{"Id": "queue", "Arn": QUEUE_ARN + name}])

    def take(self) -> list[dict[str, Any]]:
        """Return the messages since the last call, and remove them from the queue."""
        taken: list[dict[str, Any]] = []
        while messages := self._client.receive_message(QueueUrl=self._url, MaxNumberOfMessages=MAX_MESSAGES).get(
            "Messages"
        ):
            taken += messages
            for message in messages:
                self._client.delete_message(QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"])
        return taken

    def take_details(self) -> list[dict[str, Any]]:
        """Return the details of the events since the last call."""
        return [json.loads(message["Body"])["detail"] for message in self.take()]
