"""Says whether each audit log that a run shipped is the one that its trace commits to."""

import hashlib
import json
import sys

context = json.load(sys.stdin)
with open(context["trace_path"], encoding="utf-8") as file:  # noqa: PTH123
    flushed = [event for event in map(json.loads, file) if event["type"] == "audit_flushed"]

problems = []
for event in flushed:
    path = context["audit_logs"].get(event["node_id"])
    if path is None:
        problems.append(f"{event['node_id']} shipped no log")
        continue
    with open(path, "rb") as file:  # noqa: PTH123
        log = file.read()
    if f"sha256:{hashlib.sha256(log).hexdigest()}" != event["payload"]["digest"]:
        problems.append(f"the log of {event['node_id']} is not the one in the trace")
    if log.count(b"\n") != event["payload"]["events_shipped"]:
        problems.append(f"the log of {event['node_id']} has another number of events")

passed = bool(flushed) and not problems
reason = "; ".join(problems) or ("as in the trace" if passed else "no log was shipped")
print(json.dumps({"passed": passed, "reason": reason}))
