"""Holds the number of the draft against the one that the scenario gave."""

import json
import pathlib
import re
import sys

context = json.load(sys.stdin)
draft = pathlib.Path(context["workspace_path"], "draft.txt").read_text(encoding="utf-8")
numbers = {int(text) for text in re.findall(r"(\d+) seats", draft)}
passed = numbers == {context["scenario_params"]["seats"]}
details = {"found": sorted(numbers)}
print(json.dumps({"passed": passed, "score": float(passed), "reason": "seats", "details": details}))
