"""JUnit XML from a statement: a file that every consumer accepts, whatever the texts hold.

Two profiles. ``extended`` adds ``type``, ``file``, ``line`` and properties, which many consumers
read; ``strict`` has only what the common schema knows, so that it validates against it.

Source: docs/reports.md, "JUnit".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_evarness.core.finding import fraction_text
from pytest_evarness.core.outcome import Outcome
from pytest_evarness.report.finding import finding_text
from pytest_evarness.report.graded import graded_properties, remarks_on, review_line
from pytest_evarness.report.judged import judged_cases
from pytest_evarness.report.text import bounded, clean, flat, one_line
from pytest_evarness.report.wording import causes_text, side_of

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from pytest_evarness.report.judged import JudgedCase, JudgedItem

__all__ = ["MAX_TEXT", "PROFILES", "junit_bytes"]

PROFILES = ("extended", "strict")

MAX_TEXT = 64 * 1024
"""Characters kept of one text. Readers refuse text nodes beyond 10 MB at their default limits."""

_MAX_MESSAGE = 400
_WHOLE = "the whole text is in the proof bundle"


@dataclass(frozen=True, slots=True)
class _Row:
    """One test case, its texts still raw.

    Attributes:
        result: None for a pass, else ``failure``, ``error`` or ``skipped``.
        kind: The ``type`` of the extended profile.
        message: One line; a failure always has one.
        note: Goes to ``system-out`` of a passing case.
    """

    file: str
    classname: str
    name: str
    result: str | None = None
    kind: str = ""
    message: str = ""
    text: str = ""
    note: str = ""
    path: str = ""
    line: int | None = None
    properties: tuple[tuple[str, str], ...] = ()


def junit_bytes(statement: Mapping[str, Any], profile: str = "extended") -> bytes:
    """Render the statement of a bundle as JUnit XML.

    Args:
        statement: What a bundle encloses.
        profile: ``extended`` or ``strict``.

    Returns:
        A UTF-8 document, one suite for each scenario file, one test case for each planned item.

    Raises:
        ValueError: No such profile.
    """
    if profile not in PROFILES:
        raise ValueError(f"no such profile (got {profile!r}; {', '.join(PROFILES)})")
    rows: dict[str, list[_Row]] = {}
    for row in _rows(statement):
        rows.setdefault(row.file, []).append(row)
    return _document(rows, statement["predicate"], extended=profile == "extended")


# -- what is said ------------------------------------------------------------------------------


def _rows(statement: Mapping[str, Any]) -> Iterator[_Row]:
    for broken in statement["predicate"]["seal"]["broken"]:
        yield _Row(
            file=broken["file"],
            classname=_dotted(broken["file"]),
            name="load",
            result="error",
            kind="load",
            message=broken["text"],
            text=broken["text"],
            path=broken["file"],
            line=1,
            properties=(("evarness.outcome", "indeterminate"), ("evarness.gate", "true")),
        )
    for case in judged_cases(statement):
        for judged in case.items:
            yield _row(case, judged)


def _row(case: JudgedCase, judged: JudgedItem) -> _Row:
    item = judged.item
    findings = [one.finding for one in case.items if one.finding is not None]
    result, kind, message, text = _result(judged, remarks_on(item.id, findings))
    note = ""
    if result is None and judged.shows == "vacuous" and judged.finding is not None:
        note = f"vacuous: {judged.finding.reason}"
    return _Row(
        file=case.planned["file"],
        classname=_dotted(case.nodeid),
        name=item.id,
        result=result,
        kind=kind,
        message=message,
        text=text,
        note=note,
        path=item.path or case.planned["file"],
        line=item.line,
        properties=tuple(_properties(case, judged)),
    )


def _result(judged: JudgedItem, remarks: list[str]) -> tuple[str | None, str, str, str]:
    """Element, type, message and text of one item.

    Source: docs/verdicts.md, "How it shows in pytest".
    """
    finding = judged.finding
    if finding is None:
        if judged.why_not is not None:
            return "skipped", "evarness.deselected", judged.why_not, ""
        return "skipped", "evarness.not_run", "planned, and did not run to a judgement", ""
    causes = causes_text(finding.causes)
    head = {
        "missed": f"missed (weight {fraction_text(judged.item.weight)}): ",
        "indeterminate": f"indeterminate ({causes}): ",
        "undecided": f"indeterminate ({causes}): ",
    }.get(judged.shows, "")
    if judged.why_not is not None:
        # It was judged with its case all the same, and decides whether the bundle holds.
        found = "" if judged.shows in ("passed", "vacuous") else f": {head}{finding.reason}"
        message = f"{judged.why_not}, would have {_WOULD[judged.shows]}{found}"
        return "skipped", "evarness.deselected", message, ""
    message = head + finding.reason
    if judged.shows in ("passed", "vacuous"):
        return None, "", "", ""
    reviews = [review_line(review) for review in judged.reviews]
    text = head + finding_text(finding, judged.item, [*remarks, *reviews])
    if judged.shows == "skipped":
        return "skipped", "evarness.skipped", message, ""
    if judged.shows == "failed":
        return "failure", "evarness.failed", message, text
    if judged.shows == "indeterminate":
        return "error", "indeterminate", message, text
    kind = "evarness.missed" if judged.shows == "missed" else "indeterminate"
    return "skipped", kind, message, text


_WOULD = {
    "passed": "passed",
    "vacuous": "passed with nothing to judge",
    "failed": "failed",
    "missed": "missed",
    "indeterminate": "been indeterminate",
    "undecided": "been indeterminate",
    "skipped": "been skipped",
}


def _properties(case: JudgedCase, judged: JudgedItem) -> Iterator[tuple[str, str]]:
    item, finding = judged.item, judged.finding
    yield "evarness.nodeid", judged.nodeid
    if finding is not None:
        yield "evarness.outcome", finding.outcome.word
        yield "evarness.vacuous", str(finding.vacuous).lower()
        if finding.causes:
            yield "evarness.causes", ",".join(str(cause.value) for cause in finding.causes)
        side = side_of(finding)
        if side is not None:
            yield "evarness.fault", side
        if finding.score is not None and finding.outcome is not Outcome.INDETERMINATE:
            yield "evarness.score", fraction_text(finding.score)
        findings = [one.finding for one in case.items if one.finding is not None]
        yield from graded_properties(finding, findings)
    for review in judged.reviews:
        yield "evarness.review", review_line(review)
    yield "evarness.gate", str(item.gate).lower()
    yield "evarness.weight", fraction_text(item.weight)
    yield "evarness.severity", str(item.severity.value)
    yield "evarness.label", item.label
    if item.version is not None:
        name = (item.definition or {}).get("id", item.id)
        yield "evarness.contract", f"{name}@{item.version}"
    if case.record is not None:
        yield "evarness.verdict", str(case.record["verdict"])
        yield "evarness.trace_digest", str(case.replica["runs"][0]["trace_digest"])


def _dotted(nodeid: str) -> str:
    """A node id the way JUnit readers group names; colons would not be taken apart."""
    return nodeid.replace("::", ".").replace("/", ".")


# -- how it is written -------------------------------------------------------------------------


def _document(
    rows: Mapping[str, list[_Row]], predicate: Mapping[str, Any], *, extended: bool
) -> bytes:
    from xml.etree import ElementTree as ET

    root = ET.Element("testsuites", {"name": "evarness"})
    totals = {"tests": 0, "failures": 0, "errors": 0}
    taken: set[tuple[str, str]] = set()
    for number, (file, members) in enumerate(rows.items()):
        suite = _suite(file, members, predicate, number, taken, extended=extended)
        for key in totals:
            totals[key] += int(suite.get(key, "0"))
        root.append(suite)
    for key, value in totals.items():
        root.set(key, str(value))
    root.set("time", "0")
    ET.indent(root, " ")
    data: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return data + b"\n"


def _suite(
    file: str,
    rows: list[_Row],
    predicate: Mapping[str, Any],
    number: int,
    taken: set[tuple[str, str]],
    *,
    extended: bool,
) -> Element:
    import junit_xml

    cases = []
    for row in rows:
        name, classname = _unique(row, taken)
        case = junit_xml.TestCase(name, classname)
        message, text = (
            # An element without a message would be left out, and the case would read as passed.
            one_line(row.message, _MAX_MESSAGE).strip() or "no reason was given",
            bounded(row.text, MAX_TEXT, whole=_WHOLE),
        )
        if row.result == "failure":
            case.add_failure_info(message, text, row.kind)
        elif row.result == "error":
            case.add_error_info(message, text, row.kind)
        elif row.result == "skipped":
            case.add_skipped_info(message, text)
        if row.note:
            case.stdout = bounded(flat(row.note), MAX_TEXT, whole=_WHOLE)
        cases.append(case)
    seal, verdict = predicate["seal"], predicate["verdict"]
    suite: Element = junit_xml.TestSuite(
        one_line(file),
        cases,
        id=str(number),
        # The schema has no zone; the seal's time is in UTC.
        timestamp=str(seal["time"]).removesuffix("Z"),
        properties=_suite_properties(seal, verdict) if extended else None,
    ).build_xml_doc()
    # Not in the common schema, and nothing of ours is ever disabled.
    suite.attrib.pop("disabled", None)
    elements = suite.findall("testcase")
    for element, row in zip(elements, rows, strict=True):
        # A bundle holds no durations: they differ from run to run.
        element.set("time", "0")
        _profile(element, row, extended=extended)
    return suite


def _suite_properties(seal: Mapping[str, Any], verdict: Mapping[str, Any]) -> dict[str, str]:
    holds = {True: "true", False: "false", None: "null"}[verdict["holds"]]
    return {
        "evarness.holds": holds,
        "evarness.note": one_line(str(verdict["note"])),
        "evarness.seal": str(seal["digest"]),
    }


def _profile(element: Element, row: _Row, *, extended: bool) -> None:
    from xml.etree import ElementTree as ET

    result = element.find(row.result) if row.result is not None else None
    if result is not None:
        if extended:
            result.set("type", row.kind)
        else:
            result.attrib.pop("type", None)
    if not extended:
        return
    if row.path:
        element.set("file", one_line(row.path))
        if row.line is not None:
            element.set("line", str(row.line))
    if row.properties:
        properties = ET.Element("properties")
        for name, value in row.properties:
            ET.SubElement(properties, "property", {"name": name, "value": one_line(value, 1000)})
        element.insert(0, properties)


def _unique(row: _Row, taken: set[tuple[str, str]]) -> tuple[str, str]:
    """Name and classname; readers drop or merge a second test case of the same two."""
    classname = clean(row.classname).replace("\n", "\\n").replace("\t", "\\t")
    plain = clean(row.name).replace("\n", "\\n").replace("\t", "\\t")
    name, count = plain, 1
    while (classname, name) in taken:
        count += 1
        name = f"{plain} ({count})"
    taken.add((classname, name))
    return name, classname
