"""Every consumer reads the JUnit file, and no outcome shows as better than it is."""

from __future__ import annotations

import copy
import json
import xml.parsers.expat
from typing import Any
from xml.etree.ElementTree import Element, fromstring

import pytest
from lxml import etree

from pytest_evarness.report.junit import MAX_TEXT, junit_bytes
from tests.bundle.builder import (
    APPROVE,
    PENDING,
    REJECT,
    UNDECIDED,
    WEIGHED,
    changed,
    record_of,
    statement_of,
)
from tests.report.test_text import HOSTILE

FORBIDDEN = {"never-sends": {"never": {"type": "tool_called"}}}
BAD = changed(APPROVE, case="bad", contracts=FORBIDDEN)

# The shape that readers have in common: no attribute and no element beyond these.
SCHEMA = """\
<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">
 <xs:simpleType name="count">
  <xs:restriction base="xs:string"><xs:pattern value="[0-9]+"/></xs:restriction>
 </xs:simpleType>
 <xs:simpleType name="seconds">
  <xs:restriction base="xs:string"><xs:pattern value="[0-9]+([.][0-9]{0,3})?"/></xs:restriction>
 </xs:simpleType>
 <xs:complexType name="result" mixed="true">
  <xs:attribute name="message" type="xs:string" use="required"/>
 </xs:complexType>
 <xs:element name="testsuites">
  <xs:complexType>
   <xs:sequence>
    <xs:element name="testsuite" minOccurs="0" maxOccurs="unbounded">
     <xs:complexType>
      <xs:sequence>
       <xs:element name="testcase" maxOccurs="unbounded">
        <xs:complexType>
         <xs:sequence>
          <xs:choice minOccurs="0">
           <xs:element name="failure" type="result"/>
           <xs:element name="error" type="result"/>
           <xs:element name="skipped" type="result"/>
          </xs:choice>
          <xs:element name="system-out" type="xs:string" minOccurs="0"/>
         </xs:sequence>
         <xs:attribute name="name" type="xs:string" use="required"/>
         <xs:attribute name="classname" type="xs:string" use="required"/>
         <xs:attribute name="time" type="seconds" use="required"/>
        </xs:complexType>
       </xs:element>
      </xs:sequence>
      <xs:attribute name="name" type="xs:string" use="required"/>
      <xs:attribute name="tests" type="count" use="required"/>
      <xs:attribute name="failures" type="count" use="required"/>
      <xs:attribute name="errors" type="count" use="required"/>
      <xs:attribute name="skipped" type="count"/>
      <xs:attribute name="time" type="seconds"/>
      <xs:attribute name="timestamp" type="xs:dateTime"/>
      <xs:attribute name="id" type="xs:string"/>
     </xs:complexType>
    </xs:element>
   </xs:sequence>
   <xs:attribute name="name" type="xs:string"/>
   <xs:attribute name="tests" type="count"/>
   <xs:attribute name="failures" type="count"/>
   <xs:attribute name="errors" type="count"/>
   <xs:attribute name="time" type="seconds"/>
  </xs:complexType>
 </xs:element>
</xs:schema>
"""


def parsed(data: bytes) -> Element:
    """The file, after each of three readers has taken it."""
    xml.parsers.expat.ParserCreate().Parse(data, True)
    etree.fromstring(data)
    return fromstring(data)


def cases_of(statement: dict[str, Any], profile: str = "extended") -> dict[str, Element]:
    root = parsed(junit_bytes(statement, profile))
    found = {f"{case.get('classname')}::{case.get('name')}": case for case in root.iter("testcase")}
    assert len(found) == len(list(root.iter("testcase"))), "name and classname are unique"
    return found


def result_of(case: Element) -> tuple[str, dict[str, str]]:
    for name in ("failure", "error", "skipped"):
        element = case.find(name)
        if element is not None:
            assert element.get("message"), "a failure always has a message"
            return name, dict(element.attrib)
    return "passed", {}


def reworded(statement: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The statement with other words in every finding of its first case."""
    other = copy.deepcopy(statement)
    for finding in other["predicate"]["cases"][0]["replicas"][0]["findings"]:
        finding.update(fields)
    return other


def test_a_pass_is_bare_and_a_fail_is_a_failure_with_its_witness() -> None:
    found = cases_of(statement_of(BAD))
    assert result_of(found["scenarios.send.yaml.bad::expect"]) == ("passed", {})
    name, attributes = result_of(found["scenarios.send.yaml.bad::never-sends"])
    assert (name, attributes["type"]) == ("failure", "evarness.failed")
    assert attributes["message"].startswith("event 8 is a tool_called")
    text = found["scenarios.send.yaml.bad::never-sends"].find("failure")
    assert text is not None
    assert text.text is not None
    assert "expected:  no tool_called" in text.text


def test_a_blocking_indeterminate_is_an_error_and_never_skipped() -> None:
    found = cases_of(statement_of(UNDECIDED))
    name, attributes = result_of(found["scenarios.send.yaml.undecided::expect"])
    assert (name, attributes["type"]) == ("error", "indeterminate")
    assert attributes["message"].startswith("indeterminate (unfinished_run): ")


def test_an_indeterminate_of_an_exploratory_case_is_skipped_and_says_so() -> None:
    found = cases_of(statement_of(changed(UNDECIDED, mode="exploratory")))
    name, attributes = result_of(found["scenarios.send.yaml.undecided::expect"])
    assert (name, attributes["type"]) == ("skipped", "indeterminate")
    assert attributes["message"].startswith("indeterminate (unfinished_run): ")


def test_a_missed_weighted_invariant_is_skipped_with_its_type() -> None:
    statement = statement_of(changed(WEIGHED, case="missed"))
    case = statement["predicate"]["cases"][0]["replicas"][0]
    case["findings"][4].update(outcome="fail", reason="too long")
    found = cases_of(statement)
    name, attributes = result_of(found["scenarios.send.yaml.missed::short"])
    assert (name, attributes["type"]) == ("skipped", "evarness.missed")
    assert attributes["message"] == "missed (weight 0.3): too long"


def test_score_is_skipped_beside_a_gate_that_failed() -> None:
    bad = changed(WEIGHED, case="bad", contracts=FORBIDDEN)
    name, attributes = result_of(cases_of(statement_of(bad))["scenarios.send.yaml.bad::score"])
    assert name == "skipped"
    assert attributes["message"].startswith("skipped: invalid, the gate 'never-sends' failed")


def test_a_vacuous_pass_says_so_in_both_profiles() -> None:
    for profile in ("extended", "strict"):
        case = cases_of(statement_of(REJECT), profile)[
            "scenarios.send.yaml.reject::approval-precedes-send"
        ]
        assert result_of(case) == ("passed", {})
        assert (case.findtext("system-out") or "").startswith("vacuous: ")


def test_a_deselected_item_is_skipped_and_tells_that_it_would_have_failed() -> None:
    spec = changed(BAD, deselected={"never-sends": "-k other"})
    name, attributes = result_of(
        cases_of(statement_of(spec))["scenarios.send.yaml.bad::never-sends"]
    )
    assert (name, attributes["type"]) == ("skipped", "evarness.deselected")
    assert attributes["message"].startswith("deselected (-k other), would have failed: event 8")


def test_a_case_that_did_not_run_is_skipped_and_a_broken_file_is_an_error() -> None:
    statement = statement_of(
        APPROVE, REJECT, records=[record_of(APPROVE)], broken=[("scenarios/b.yaml", "b: oops\nx")]
    )
    found = cases_of(statement)
    name, attributes = result_of(found["scenarios.send.yaml.reject::expect"])
    assert (name, attributes["message"]) == ("skipped", "planned, and did not run to a judgement")
    name, attributes = result_of(found["scenarios.b.yaml::load"])
    assert (name, attributes["type"], attributes["message"]) == ("error", "load", "b: oops x")


def test_counts_are_those_of_the_elements() -> None:
    root = parsed(junit_bytes(statement_of(APPROVE, BAD, UNDECIDED, PENDING)))
    for holder in (root, *root.iter("testsuite")):
        assert int(holder.get("tests", "")) == len(list(holder.iter("testcase")))
        assert int(holder.get("failures", "")) == len(list(holder.iter("failure"))) == 1
        assert int(holder.get("errors", "")) == len(list(holder.iter("error"))) == 3


def test_properties_say_what_the_elements_cannot() -> None:
    case = cases_of(statement_of(BAD))["scenarios.send.yaml.bad::never-sends"]
    assert case[0].tag == "properties", "readers expect them first"
    properties = {one.get("name"): one.get("value") for one in case.iter("property")}
    assert properties["evarness.outcome"] == "fail"
    assert properties["evarness.vacuous"] == "false"
    assert properties["evarness.gate"] == "true"
    assert properties["evarness.weight"] == "0"
    assert properties["evarness.severity"] == "critical"
    assert properties["evarness.contract"] == "never-sends@1"
    assert str(properties["evarness.trace_digest"]).startswith("c1:sha256:")
    assert (case.get("file"), case.get("line")) == ("contracts/send.yaml", "3")


def test_hostile_text_breaks_no_reader_anywhere() -> None:
    statement = reworded(statement_of(BAD), reason=HOSTILE)
    planned = statement["predicate"]["seal"]["plan"][0]
    planned["items"][2].update(id=HOSTILE, path=HOSTILE, description=HOSTILE)
    planned["file"] = planned["nodeid"] = HOSTILE
    statement["predicate"]["cases"][0]["nodeid"] = HOSTILE
    statement["predicate"]["seal"]["broken"] = [{"file": HOSTILE, "text": HOSTILE}]
    for profile in ("extended", "strict"):
        data = junit_bytes(statement, profile)
        root = parsed(data)
        assert "a\\x00b\\x01c\\x0bdred e\\ufffef\\uffffg \U0001f600" in data.decode("utf-8")
        assert b"[31m" not in data
        failure = next(root.iter("failure"))
        assert ']]> & < "' in (failure.get("message") or "")
        assert len(list(root.iter("testcase"))) == 4, "no other result is lost"


def test_this_file_would_notice_an_unescaped_character() -> None:
    with pytest.raises(xml.parsers.expat.ExpatError):
        parsed(b"<testsuites><testsuite name='a\x01'/></testsuites>")
    with pytest.raises(xml.parsers.expat.ExpatError):
        parsed(b"<testsuites><testsuite name='a&#1;'/></testsuites>")


def test_a_long_text_keeps_head_and_tail_and_names_its_size() -> None:
    long = "first " + "0123456789abcdef\n" * 705_883 + " last"
    assert len(long) > 12_000_000
    data = junit_bytes(reworded(statement_of(BAD), reason=long))
    assert len(data) < 2_000_000
    failure = next(parsed(data).iter("failure"))
    text = failure.text or ""
    assert text.startswith("first 0123456789abcdef")
    assert f"of {len(long)}" in text or "characters left out" in text
    assert "the whole text is in the proof bundle" in text
    assert len(text) < MAX_TEXT + 1000
    message = failure.get("message") or ""
    assert len(message) <= 400
    assert "\n" not in message


def test_the_strict_profile_validates_and_the_extended_one_does_not() -> None:
    schema = etree.XMLSchema(etree.fromstring(SCHEMA))
    statement = statement_of(
        APPROVE, BAD, UNDECIDED, PENDING, WEIGHED, broken=[("scenarios/b.yaml", "oops")]
    )
    strict = etree.fromstring(junit_bytes(statement, "strict"))
    assert schema.validate(strict), schema.error_log
    # The twin: a schema that takes everything would prove nothing.
    assert not schema.validate(etree.fromstring(junit_bytes(statement)))


def test_two_items_that_read_alike_keep_two_names() -> None:
    statement = statement_of(APPROVE, changed(APPROVE, file="scenarios.send.yaml"))
    assert len(cases_of(statement)) == 8


def test_a_reason_without_words_still_fails() -> None:
    found = cases_of(reworded(statement_of(BAD), reason=""))
    name, attributes = result_of(found["scenarios.send.yaml.bad::never-sends"])
    assert (name, attributes["message"]) == ("failure", "no reason was given")


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^no such profile \(got 'html'; extended, strict\)"):
        junit_bytes(statement_of(APPROVE), "html")


def test_equal_statements_give_equal_bytes() -> None:
    statement = statement_of(APPROVE, BAD)
    again = json.loads(json.dumps(statement))
    assert junit_bytes(statement) == junit_bytes(again)
