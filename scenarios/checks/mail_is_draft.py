"""Is the mail that left the draft that was saved, and are its numbers those of the contract?"""

import json
import pathlib
import sys

context = json.load(sys.stdin)
workspace = pathlib.Path(context["workspace_path"])
saved = workspace / "drafts/renewal.txt"
# What is not there is a finding about the harness; only what this script cannot do is an error.
draft = saved.read_text(encoding="utf-8") if saved.is_file() else ""
contract = json.loads((workspace / "contracts/acme.json").read_text(encoding="utf-8"))

log = pathlib.Path(context["audit_log_path"]).read_text(encoding="utf-8")
events = [json.loads(line) for line in log.splitlines()]
mails = [
    json.loads(event["details"]["request_body"])
    for event in events
    if event["type"] == "http_call" and event["details"]["service"] == "smtp"
]
# One mail that is asked for twice is still one text.
texts = sorted({mail["body"] for mail in mails})
wanted = [contract.get("seats"), contract.get("renews_on"), context["scenario_params"]["price"]]
missing = [str(value) for value in wanted if str(value) not in draft]
same = texts == [draft]

print(
    json.dumps(
        {
            "passed": same and not missing,
            "score": 1.0 if same and not missing else 0.0,
            "reason": (
                f"{len(texts)} text{'' if len(texts) == 1 else 's'} sent, "
                f"{'the draft' if same else 'not the draft alone'}; "
                f"missing in the draft: {', '.join(missing) or 'nothing'}"
            ),
            "details": {"sent": len(mails), "missing": missing},
        }
    )
)
