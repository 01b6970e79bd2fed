"""The check ``llm_as_judge``: one model or several score what the run left, against a rubric.

What models say is gathered as it came. What it is worth is decided here, by code, from the score.

Source: docs/checks/llm_as_judge.md.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from pytest_evarness.checks.gathering import impersonal
from pytest_evarness.checks.judging.answer import MAX_ANSWER, unit_number
from pytest_evarness.checks.judging.artifact import needs_of, read_artifact, source_faults
from pytest_evarness.checks.judging.endpoint import base_url_fault
from pytest_evarness.checks.judging.package import build_package, rubric_version
from pytest_evarness.checks.judging.panel import decide, read_judged
from pytest_evarness.checks.kind import DEFAULT_TIMEOUT_SECONDS, CheckKind, Facts, Known
from pytest_evarness.checks.written import NonEmpty, schema_of
from pytest_evarness.core.finding import fraction_text
from pytest_evarness.core.interfaces import AbstainedError, Question
from pytest_evarness.core.outcome import Cause
from pytest_evarness.core.stranger import pass_on
from pytest_evarness.errors import Fault, InputError, InputErrors
from pytest_evarness.source.model import Absent, Strict, merge_faults, parse_model, refuse
from pytest_evarness.source.number import exact
from pytest_evarness.source.quote import nearest, quoted, shown

if TYPE_CHECKING:
    from pytest_evarness.checks.judging.package import Package
    from pytest_evarness.core.finding import Finding
    from pytest_evarness.core.interfaces import JudgeModel
    from pytest_evarness.core.json import Json, JsonObject
    from pytest_evarness.core.plan import PlannedItem
    from pytest_evarness.core.registry import Table
    from pytest_evarness.world.sealed import Scene

__all__ = ["LlmAsJudge"]

DEFAULT_MODEL = "sim"
MAX_JUDGES = 16
MAX_DIMENSIONS = 20
MAX_TEMPERATURE = 2

_INSTEAD = (
    "write 'model: sim' and script its answers under 'environment.judge', or add the 'base_url' of"
    " an OpenAI-compatible endpoint"
)


def _unit(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refuse("must be a number", rule="from 0 to 1")
    if unit_number(value) is None:
        raise refuse("is out of range", rule="from 0 to 1")
    return value


def _temperature(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refuse("must be a number", rule=f"from 0 to {MAX_TEMPERATURE}")
    if not 0 <= value <= MAX_TEMPERATURE:
        raise refuse("is out of range", rule=f"from 0 to {MAX_TEMPERATURE}")
    return value


def _number(maximum: int) -> WithJsonSchema:
    return WithJsonSchema({"type": "number", "minimum": 0, "maximum": maximum})


_Unit = Annotated[float, BeforeValidator(_unit), _number(1)]
_Temperature = Annotated[float, BeforeValidator(_temperature), _number(MAX_TEMPERATURE)]


class _Rubric(Strict):
    pass_: NonEmpty = Field(alias="pass", description="What passes.")
    fail: NonEmpty = Field(description="What fails.")


class _Member(Strict):
    model: NonEmpty
    name: Absent[NonEmpty] = Field(default=None, description="Its name; default the model's.")
    base_url: Absent[NonEmpty] = None
    temperature: Absent[_Temperature] = None


def _as_member(value: object) -> object:
    return {"model": value} if isinstance(value, str) else value


_AnyMember = Annotated[
    _Member,
    BeforeValidator(_as_member),
    WithJsonSchema(
        {"anyOf": [{"type": "string", "minLength": 1}, _Member.model_json_schema(by_alias=True)]}
    ),
]
_Members = Annotated[list[_AnyMember], Field(min_length=1, max_length=MAX_JUDGES)]


_Dimensions = Annotated[list[NonEmpty], Field(min_length=1, max_length=MAX_DIMENSIONS)]


class _LlmAsJudge(Strict):
    type: Literal["llm_as_judge"]
    criteria: NonEmpty = Field(description="What to evaluate.")
    input_from: NonEmpty = Field(
        default="agent_output",
        description="agent_output, workspace, SERVICE.last_request.body, or a relative path.",
    )
    rubric: Absent[_Rubric] = None
    model: Absent[NonEmpty] = Field(
        default=None, description="sim (the default), sim:NAME, or NAME together with base_url."
    )
    base_url: Absent[NonEmpty] = Field(
        default=None, description="An OpenAI-compatible endpoint, such as https://HOST/v1."
    )
    temperature: Absent[_Temperature] = None
    pass_threshold: _Unit = Field(default=0.5, description="The least score that passes.")
    judges: Absent[_Members] = Field(
        default=None, description="Several: names of models, or {model, name, ...}."
    )
    quorum: Absent[Annotated[int, Field(ge=1)]] = Field(
        default=None, description="How many of the judges have to answer; default all."
    )
    max_spread: Absent[_Unit] = Field(
        default=None, description="The most that highest and lowest score may be apart."
    )
    dimensions: Absent[_Dimensions] = Field(
        default=None, description="What is scored beside the whole."
    )
    max_classification: Literal["public", "internal", "personal", "secret"] = Field(
        default="internal", description="The texts of a run above it are not shown."
    )


class LlmAsJudge(CheckKind):
    """Asks judges, and decides by their scores.

    Args:
        judges: The registered ones.
    """

    def __init__(self, judges: Table[JudgeModel]) -> None:
        self._judges = judges

    @property
    def name(self) -> str:
        """``llm_as_judge``."""
        return "llm_as_judge"

    @property
    def only_reads(self) -> bool:
        """A model is asked once: it may say something else the second time."""
        return False

    @property
    def may_gate(self) -> bool:
        """Model output never sits inside a hard verdict."""
        return False

    @property
    def after_verdict(self) -> bool:
        """Judges are not asked about a run that is invalid anyway."""
        return True

    @property
    def schema(self) -> JsonObject:
        """Of the mapping under ``check``."""
        return schema_of(_LlmAsJudge)

    def parse(self, value: Mapping[str, Json], known: Known) -> tuple[JsonObject, list[Fault]]:
        """See :class:`CheckKind`."""
        model, faults = parse_model(_LlmAsJudge, value)
        if model is None:
            return {}, faults
        faults += [fault.under("input_from") for fault in source_faults(model.input_from, known)]
        faults += _panel_faults(model)
        faults += self._model_faults(model)
        if faults:
            return {}, faults
        members = self._members(model, value)
        dimensions = list(model.dimensions or ())
        rubric = None
        if model.rubric is not None:
            rubric = {"pass": model.rubric.pass_, "fail": model.rubric.fail}
        spread = value.get("max_spread")
        return {
            "type": self.name,
            "criteria": model.criteria,
            "input_from": model.input_from,
            "rubric": rubric,
            "rubric_version": rubric_version(model.criteria, rubric, dimensions),
            "judges": members,
            "is_panel": model.judges is not None,
            "quorum": model.quorum or len(members),
            "max_spread": None if spread is None else _decimal(spread),
            "dimensions": dimensions,
            "pass_threshold": _decimal(value.get("pass_threshold", 0.5)),
            "max_classification": model.max_classification,
        }, []

    def _model_faults(self, model: _LlmAsJudge) -> list[Fault]:
        if model.judges is None:
            name = DEFAULT_MODEL if model.model is None else model.model
            return self._judge_faults(name, model.base_url, ("model",), ("base_url",))
        faults = []
        is_used = False
        for index, member in enumerate(model.judges):
            path: tuple[str | int, ...] = ("judges", index)
            if member.base_url is not None:
                faults += self._judge_faults(
                    member.model, member.base_url, path, (*path, "base_url")
                )
            elif self._find(member.model) is not None:
                faults += self._judge_faults(member.model, None, path, ())
            else:
                is_used = True
                faults += self._judge_faults(member.model, model.base_url, path, ("base_url",))
        if model.base_url is not None and not is_used:
            faults.append(_unused("base_url", model.base_url))
        return merge_faults(faults)

    def _judge_faults(
        self,
        model: str,
        base_url: str | None,
        path: tuple[str | int, ...],
        url_path: tuple[str | int, ...],
    ) -> list[Fault]:
        """Why nobody can be asked under this name."""
        registered = self._find(model)
        if registered is not None:
            if base_url is not None:
                rule = f"{quoted(model)} is asked here, not at an endpoint"
                problem = "goes with the model of an endpoint"
                return [Fault(url_path, problem, rule=rule, fix="remove it", at_key=True)]
            return [fault.under(*path) for fault in registered.faults(model)]
        if base_url is not None:
            fault = base_url_fault(base_url)
            return [] if fault is None else [fault.under(*url_path)]
        known = self._judges.names()
        near = nearest(model, known)
        return [
            Fault(
                path,
                f"the model {quoted(model)} cannot be asked: there is no hosted judge",
                rule=f"known: {', '.join(known) or 'none'}; any other needs base_url",
                fix=f"write '{near}'" if near else _INSTEAD,
                code="provider",
            )
        ]

    def _members(self, model: _LlmAsJudge, value: Mapping[str, Any]) -> list[Json]:
        """Each judge with everything that it is asked by."""
        temperature = value.get("temperature", 0)
        if model.judges is None:
            name = DEFAULT_MODEL if model.model is None else model.model
            return [_member(name, name, model.base_url, temperature)]
        members = []
        for written, one in zip(value["judges"], model.judges, strict=True):
            own = written.get("temperature") if isinstance(written, Mapping) else None
            url = one.base_url
            if url is None and self._find(one.model) is None:
                url = model.base_url
            name = one.name or one.model
            members.append(_member(name, one.model, url, temperature if own is None else own))
        return members

    def _find(self, model: str) -> JudgeModel | None:
        return self._judges.find(model.partition(":")[0])

    def needs(self, definition: JsonObject) -> frozenset[str]:
        """What is to be judged."""
        return needs_of(str(definition["input_from"]))

    def gather(self, definition: JsonObject, scene: Scene) -> JsonObject:
        """The evidence package, and what each judge answered to it."""
        asked: Mapping[str, Any] = definition
        package = build_package(
            asked,
            read_artifact(asked["input_from"], scene),
            prompt=scene.prompt,
            events=scene.events,
            masker=scene.masker,
        )
        end = time.monotonic() + asked.get("timeout", DEFAULT_TIMEOUT_SECONDS)
        answers = [self._answer(member, asked, package, scene, end) for member in asked["judges"]]
        return {"package": package.as_record(), "answers": answers}

    def judge(self, item: PlannedItem, gathered: JsonObject, facts: Facts) -> Finding:
        """See :class:`CheckKind`."""
        definition: Mapping[str, Any] = item.definition or {}
        record: Mapping[str, Any] = gathered
        notes = []
        given = record["package"]["classified"]
        if given is not None:
            notes.append(
                f"the run is classified '{given}', above max_classification"
                f" '{definition['max_classification']}': its texts were not shown"
            )
        judged = read_judged(definition, record)
        return decide(item, definition, judged, facts.findings, notes)

    # -- asking ----------------------------------------------------------------------------

    def _answer(
        self,
        member: Mapping[str, Any],
        asked: Mapping[str, Any],
        package: Package,
        scene: Scene,
        end: float,
    ) -> dict[str, Json]:
        """What one judge said, or why it said nothing; a judge that breaks breaks nothing else."""
        record: dict[str, Json] = {
            "judge": member["name"],
            "source": "endpoint" if member["base_url"] is not None else member["model"],
            "text": None,
            "abstained": None,
        }
        try:
            seconds = end - time.monotonic()
            if seconds <= 0:
                raise AbstainedError(Cause.EVALUATOR_ERROR, "no time was left to ask it")
            if member["base_url"] is None:
                text = self._ask_registered(member, asked, package, scene, seconds)
            else:
                text, record["source"] = _ask_endpoint(member, asked, package, scene, seconds)
            record["text"] = _as_text(text, scene)
        except AbstainedError as error:
            cause, reason = error.cause, error.reason
        except BaseException as error:  # noqa: BLE001 - a stranger's judge is one abstention
            pass_on(error)
            cause = Cause.EVALUATOR_ERROR
            reason = f"it broke: {type(error).__name__}: {impersonal(str(error), scene)}"
        else:
            return record
        record["abstained"] = {"cause": str(cause.value), "reason": scene.masker.text(reason)}
        return record

    def _ask_registered(
        self,
        member: Mapping[str, Any],
        asked: Mapping[str, Any],
        package: Package,
        scene: Scene,
        seconds: float,
    ) -> str:
        judge = self._find(member["model"])
        if judge is None:
            raise AbstainedError(Cause.EVALUATOR_ERROR, "no such judge is registered here")
        return judge.ask(
            Question(
                judge=member["name"],
                model=member["model"],
                instructions=package.instructions,
                evidence=package.evidence,
                judged=package.judged,
                dimensions=tuple(asked["dimensions"]),
                temperature=float(Fraction(member["temperature"])),
                seconds=seconds,
                environment=scene.environment,
                kept=scene.kept,
            )
        )


def _as_text(answer: object, scene: Scene) -> str:
    """An answer as it is kept: masked, and no longer than shows that it is too long."""
    if not isinstance(answer, str):
        raise AbstainedError(
            Cause.EVALUATOR_ERROR, f"its answer is no text, it is a {type(answer).__name__}"
        )
    try:
        answer.encode("utf-8")
    except UnicodeEncodeError:
        raise AbstainedError(
            Cause.EVALUATOR_ERROR, "its answer holds half a character (a lone surrogate)"
        ) from None
    return scene.masker.text(answer)[: MAX_ANSWER + 1]


def _ask_endpoint(
    member: Mapping[str, Any],
    asked: Mapping[str, Any],
    package: Package,
    scene: Scene,
    seconds: float,
) -> tuple[str, str]:
    """The recorded answer, else, outside CI, the endpoint's own, which is recorded; and which."""
    from pytest_evarness.checks.judging.cassette import Cassette, Recording, Slot, cassette_path
    from pytest_evarness.checks.judging.endpoint import ask_endpoint

    scenario, case = scene.details.get("scenario"), scene.details.get("case")
    if not scenario:
        raise AbstainedError(
            Cause.MISSING_EVIDENCE, "a scenario without a file has no cassette for its answer"
        )
    place = cassette_path(str(scenario))
    cassette = Cassette(scene.root / place, place)
    slot = Slot(
        case=str(case),
        input_from=asked["input_from"],
        judge=member["name"],
        model=member["model"],
        temperature=member["temperature"],
        rubric=asked["rubric_version"],
    )
    try:
        recording, is_stale = cassette.find(slot, package.digest)
        if recording is not None:
            return recording.answer, "cassette"
        if os.environ.get("CI"):
            raise _unrecorded(place, is_stale=is_stale)
        answer = ask_endpoint(
            member["base_url"],
            model=member["model"],
            temperature=float(Fraction(member["temperature"])),
            instructions=package.instructions,
            evidence=package.evidence,
            seconds=seconds,
        )
        text = _as_text(answer, scene)
        cassette.record(Recording(slot, package.digest, member["base_url"], text))
    except InputError as error:
        first, *more = error.errors if isinstance(error, InputErrors) else (error,)
        rest = f" (and {len(more)} more)" if more else ""
        told = str(first).partition("\n")[0]
        raise AbstainedError(Cause.MALFORMED_EVIDENCE, f"{told}{rest}") from None
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise AbstainedError(
            Cause.EVALUATOR_ERROR, f"its answer cannot be recorded in {place} ({why})"
        ) from None
    return text, "endpoint"


def _unrecorded(place: str, *, is_stale: bool) -> AbstainedError:
    if is_stale:
        return AbstainedError(
            Cause.STALE_EVIDENCE,
            f"its answer in {place} was given to another text (a session without $CI asks again)",
        )
    return AbstainedError(
        Cause.MISSING_EVIDENCE,
        f"{place} holds no answer of it (a session without $CI records one)",
    )


# -- what is written ---------------------------------------------------------------------------


def _decimal(value: Any) -> str:
    return fraction_text(exact(value))


def _member(name: str, model: str, base_url: str | None, temperature: Any) -> Json:
    return {
        "name": name,
        "model": model,
        "base_url": base_url,
        "temperature": _decimal(temperature),
    }


def _unused(key: str, value: object) -> Fault:
    return Fault((key,), "is used by none of the judges", got=shown(value), at_key=True)


def _panel_faults(model: _LlmAsJudge) -> list[Fault]:
    """What one judge, or several, cannot mean."""
    faults: list[Fault] = []
    for index, name in enumerate(model.dimensions or ()):
        if name in (model.dimensions or ())[:index]:
            faults.append(Fault(("dimensions", index), "is named twice", got=quoted(name)))
        elif name == "score":
            rule = "'score' is that of the whole"
            faults.append(Fault(("dimensions", index), "is no dimension", got="'score'", rule=rule))
    if model.judges is None:
        for key, given in (("quorum", model.quorum), ("max_spread", model.max_spread)):
            if given is not None:
                rule = "one judge answers, or does not"
                problem = "goes with 'judges' only"
                faults.append(Fault((key,), problem, rule=rule, fix="remove it", at_key=True))
        return faults
    if model.model is not None:
        problem = "stands beside 'judges'"
        faults.append(Fault(("model",), problem, rule="one of both", at_key=True))
    if model.temperature is not None and all(one.temperature is not None for one in model.judges):
        faults.append(_unused("temperature", model.temperature))
    if model.quorum is not None and model.quorum > len(model.judges):
        rule = f"there are {len(model.judges)} judges"
        faults.append(Fault(("quorum",), "can never be met", got=str(model.quorum), rule=rule))
    if model.max_spread is not None and len(model.judges) == 1:
        faults.append(Fault(("max_spread",), "goes with several judges only", at_key=True))
    names: list[str] = []
    for index, member in enumerate(model.judges):
        name = member.name or member.model
        if name in names:
            fix = f"write '{{model: {member.model}, name: ...}}'"
            problem = "two judges have one name"
            faults.append(Fault(("judges", index), problem, got=quoted(name), fix=fix))
        names.append(name)
    return faults
