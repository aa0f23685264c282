"""Topics: whether those that were made and deleted in a round are where they must be at its end.

check_topics(messages, findings)     # topic-lost, topic-back

An answer to such a change says that each replica has it. A change without an answer may have been
made or not.
"""

from __future__ import annotations

from tests.ha.findings import Findings
from tests.ha.messages import Messages


def check_topics(messages: Messages, findings: Findings) -> None:
    for changes in messages.topic_changes.values():
        findings.counts["topics made"] += any(e.acked and not e.deletes for e in changes)
        findings.counts["topics deleted"] += any(e.acked and e.deletes for e in changes)
    for seen in messages.topics_seen:
        for topic, changes in messages.topic_changes.items():
            made = [each for each in changes if each.acked and not each.deletes]
            gone = [each for each in changes if each.acked and each.deletes]
            may_be_gone = any(each.deletes for each in changes)
            if topic in seen.topics and gone:
                text = f"{seen.broker} has {topic}, which was deleted"
                findings.violation("topic-back", text, *gone, seen)
            elif topic not in seen.topics and made and not may_be_gone:
                text = f"{seen.broker} does not have {topic}, which was made"
                findings.violation("topic-lost", text, *made, seen)
