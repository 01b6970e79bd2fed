"""Fails where no test with a given word in its name ran, or one of them was skipped.

python .ci/ran.py JUNIT-FILE WORD [WORD ...]
"""

import sys
import xml.etree.ElementTree as ET

file, *words = sys.argv[1:]
cases = list(ET.parse(file).iter("testcase"))
for word in words:
    named = [case for case in cases if word in case.get("name", "")]
    left_out = [case.get("name") for case in named if case.find("skipped") is not None]
    print(f"tests named *{word}*: {len(named)}")
    if left_out or not named:
        sys.exit(f"{len(left_out)} of {len(named)} were skipped: {left_out[:3]}")
