"""Counts the answers in the audit log that are JSON and have the fields agreed on."""

import json
import sys
from typing import Any

context = json.load(sys.stdin)
with open(context["audit_log_path"], encoding="utf-8") as log:  # noqa: PTH123
    calls = [one for one in map(json.loads, log) if one["type"] == "http_call"]


def is_whole(call: dict[str, Any]) -> bool:
    try:
        answer = json.loads(call["details"]["response_body"])
    except json.JSONDecodeError:
        return False
    return isinstance(answer, dict) and {"id", "status"} <= set(answer)


whole = sum(map(is_whole, calls))
print(
    json.dumps(
        {
            "passed": bool(calls) and whole == len(calls),
            "score": whole / len(calls) if calls else 0,
            "reason": f"{whole}/{len(calls)} answers are whole",
        }
    )
)
