"""Verification of a bundle, offline: one function that reads as its list of steps.

It reads no file but the bundle it is handed, starts no process, and imports no name that a
bundle holds. Each step fails closed: whatever goes wrong in it, the bundle is not genuine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_evarness.bundle import consistency, recomputation
from pytest_evarness.bundle.applying import check_applying
from pytest_evarness.bundle.compiled import check_compiled
from pytest_evarness.bundle.defined import check_defined
from pytest_evarness.bundle.ending import check_worlds
from pytest_evarness.bundle.envelope import (
    PAYLOAD_TYPE,
    Envelope,
    parse_envelope,
    signed_bytes,
)
from pytest_evarness.bundle.reading import refuse_archives, strict_json
from pytest_evarness.bundle.schema import STATEMENT, check_shape
from pytest_evarness.bundle.statement import PREDICATE_TYPE
from pytest_evarness.bundle.written import check_written
from pytest_evarness.core.json import shown
from pytest_evarness.errors import EvarnessError, UnverifiedError, UsageError

if TYPE_CHECKING:
    from pytest_evarness.bundle.key import PublicKey
    from pytest_evarness.core.registry import Registry

__all__ = ["EXIT", "STEPS", "Options", "Report", "Step", "verify_bundle"]

EXIT = {"holds": 0, "fails": 1, "not_genuine": 1, "pending": 3, "unknown_origin": 4}

STEPS = (
    "form",
    "signature",
    "canonical",
    "seal",
    "runs",
    "findings",
    "not_proven",
    "rerun",
)
"""Names of the steps, in their order."""

T = TypeVar("T")

# What well-formed records that make no sense together can set off in code that was written for
# records of our own. Named one by one: a bug elsewhere must not pass for a forged bundle.
_NONSENSE = (
    LookupError,
    TypeError,
    ValueError,
    ArithmeticError,
    AttributeError,
    AssertionError,
)


@dataclass(frozen=True, slots=True)
class Options:
    """What the caller trusts and expects.

    Attributes:
        keys: Pinned public keys; none means that nobody is trusted.
        expect: ``holds``, or ``any`` to ask only whether the bundle is genuine.
        commit: The commit that must be named.
        challenge: What must have been sealed.
        rerun: Execute the enclosed cases here as well.
        allow_code: Let a rerun execute code that the bundle names.
    """

    keys: tuple[PublicKey, ...] = ()
    expect: str = "holds"
    commit: str | None = None
    challenge: str | None = None
    rerun: bool = False
    allow_code: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """One step and how it came out: ``pass``, ``fail`` or ``not_checked``."""

    step: str
    outcome: str
    detail: str

    def as_record(self) -> dict[str, str]:
        """The JSON form."""
        return {"step": self.step, "outcome": self.outcome, "detail": self.detail}


@dataclass(frozen=True, slots=True)
class Report:
    """The answer.

    Attributes:
        result: ``holds``, ``fails``, ``pending``, ``unknown_origin`` or ``not_genuine``.
        exit: The exit code of the command.
        steps: All eight, in order.
        taken_on_word: What nobody but the signer vouches for.
        claim: What the bundle says of itself (``verdict``); None when it is not genuine.
        keyid: The pinned key that signed; None when none did.
    """

    result: str
    exit: int
    steps: tuple[Step, ...]
    taken_on_word: tuple[str, ...] = ()
    claim: Mapping[str, Any] | None = None
    keyid: str | None = None

    def as_record(self) -> dict[str, Any]:
        """The form of ``verify --json``."""
        return {
            "result": self.result,
            "exit": self.exit,
            "steps": [step.as_record() for step in self.steps],
            "taken_on_word": list(self.taken_on_word),
        }


def verify_bundle(data: bytes, *, options: Options, registry: Registry) -> Report:
    """Decide what a bundle shows.

    The steps, each of which fails closed:

    1. form: bounded, strict JSON, strict base64, exact payload type, every field known;
    2. signature: by a pinned key, never by one that the bundle names;
    3. canonical: payload and enclosed texts are their own canonical encodings;
    4. seal: seal, plan, contracts, subjects and the caller's pins agree;
    5. runs: counts, sequence, digests, bindings and ends;
    6. findings: every item judged again, verdicts and composites computed again;
    7. not_proven: says all that is not proven;
    8. rerun: where asked for, the cases executed here.

    Args:
        data: The bytes of the file.
        registry: The packaged parts; what a plug-in adds is taken on the signer's word.

    Raises:
        UsageError: The options contradict themselves or the bundle (a rerun without a pin).
    """
    if options.rerun and not options.keys:
        raise UsageError(
            "--rerun executes what a bundle encloses, so it needs a pinned key", fix="add --key PUB"
        )
    account = _Account()
    try:
        envelope, statement = account.take("form", _check_form, data)
        keyid = account.take("signature", _check_signature, envelope, options)
        predicate = statement["predicate"]
        events = account.take("canonical", _check_canonical, envelope, statement)
        account.take("seal", _check_seal, statement, options)
        account.take("runs", _check_runs, predicate, events)
        account.take("findings", _check_findings, predicate, events, registry, account.word)
        account.take("not_proven", _check_not_proven, predicate, registry, envelope, account.word)
        account.take("rerun", _check_rerun, predicate, registry, options)
    except UnverifiedError:
        return account.refused()
    account.word.extend(_always_on_word(predicate))
    if account.steps[-1].outcome != "pass":
        # First: it is what everything else was judged on.
        account.word.insert(0, "events: that they are what the enclosed graph gives (try --rerun)")
    return _answer(account, predicate, keyid, options)


class _Account:
    """The steps taken so far."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.word: list[str] = []

    def take(self, name: str, step: Callable[..., tuple[str, str, T]], *arguments: Any) -> T:
        """Take a step: it gives outcome, detail and value, or raises.

        Raises:
            UnverifiedError: The step failed, for whatever reason.
            UsageError: The caller asked for what cannot be done.
        """
        try:
            outcome, detail, value = step(*arguments)
        except UsageError:
            raise
        except EvarnessError as error:
            self.steps.append(Step(name, "fail", error.problem))
            raise UnverifiedError(error.problem) from error
        except _NONSENSE as error:
            self.steps.append(Step(name, "fail", f"does not add up ({type(error).__name__})"))
            raise UnverifiedError("does not add up") from error
        except (RecursionError, MemoryError) as error:
            self.steps.append(Step(name, "fail", f"takes too much ({type(error).__name__})"))
            raise UnverifiedError("takes too much") from error
        self.steps.append(Step(name, outcome, detail))
        return value

    def refused(self) -> Report:
        """The report after a step that failed: what follows was not looked at."""
        done = len(self.steps)
        rest = [Step(name, "not_checked", "a step before it failed") for name in STEPS[done:]]
        return Report("not_genuine", EXIT["not_genuine"], (*self.steps, *rest))


def _check_form(data: bytes) -> tuple[str, str, tuple[Envelope, dict[str, Any]]]:
    refuse_archives(data)
    envelope = parse_envelope(strict_json(data, "envelope"), data)
    statement = strict_json(envelope.payload, "payload")
    if isinstance(statement, dict) and statement.get("predicateType") != PREDICATE_TYPE:
        kind = shown(statement.get("predicateType"))
        raise UnverifiedError(f"no bundle of this format, so it cannot be verified (got {kind})")
    check_shape(statement, STATEMENT)
    return "pass", f"{len(data)} bytes, strict JSON, every field known", (envelope, statement)


def _check_signature(envelope: Envelope, options: Options) -> tuple[str, str, str | None]:
    if not options.keys:
        if envelope.signature is None:
            return "not_checked", "the bundle is unsigned and no key is pinned", None
        return "not_checked", "no key is pinned, so nobody is trusted", None
    if envelope.signature is None:
        raise UnverifiedError("the bundle is unsigned, and a pinned key asks for a signature")
    for key in options.keys:
        if key.keyid == envelope.keyid:
            key.verify(envelope.signature, signed_bytes(PAYLOAD_TYPE, envelope.payload))
            return "pass", f"signed by the pinned key {key.keyid}", key.keyid
    raise UnverifiedError(f"the key id is no pinned key's (got {shown(envelope.keyid, 80)})")


def _check_canonical(
    envelope: Envelope, statement: dict[str, Any]
) -> tuple[str, str, consistency.Events]:
    events = consistency.check_canonical_form(envelope.payload, statement)
    count = sum(len(run) for run in events.values())
    return "pass", f"the payload and {count} event texts are their own canonical form", events


def _check_seal(statement: dict[str, Any], options: Options) -> tuple[str, str, None]:
    predicate = statement["predicate"]
    seal = predicate["seal"]
    consistency.check_seal(statement)
    consistency.check_plan(seal)
    consistency.check_environment(predicate)
    consistency.check_cases(predicate)
    notes = consistency.check_pins(seal, commit=options.commit, challenge=options.challenge)
    detail = f"{seal['digest']} of {seal['time']}, {len(seal['plan'])} planned cases"
    return "pass", "; ".join([detail, *notes]), None


def _check_runs(predicate: dict[str, Any], events: consistency.Events) -> tuple[str, str, None]:
    unseen = consistency.check_runs(predicate, events)
    check_worlds(predicate)
    runs = sum(len(replica["runs"]) for case in predicate["cases"] for replica in case["replicas"])
    if unseen:
        return (
            "not_checked",
            f"{unseen} of {runs} runs have no events enclosed: bindings agree, digests are claims",
            None,
        )
    return "pass", f"{runs} runs: counts, sequence, digests, bindings and ends agree", None


def _check_findings(
    predicate: dict[str, Any], events: consistency.Events, registry: Registry, word: list[str]
) -> tuple[str, str, None]:
    consistency.check_findings_shape(predicate)
    recomputation.check_verdict(predicate)
    word.extend(check_compiled(predicate, registry))
    word.extend(check_written(predicate))
    word.extend(check_applying(predicate, registry))
    word.extend(check_defined(predicate, registry))
    if predicate["seal"]["settings"]["events"] == "digest":
        word.append("every finding, verdict and composite: no events are enclosed")
        return "not_checked", "no events are enclosed; only counts and verdict were added up", None
    word.extend(recomputation.check_output(predicate, events))
    on_word, given = recomputation.check_findings(predicate, events, registry)
    word.extend(on_word)
    count = sum(
        len(replica["findings"]) for case in predicate["cases"] for replica in case["replicas"]
    )
    detail = f"{count - given} of {count} findings judged again, every verdict computed again"
    return "pass", detail, None


def _check_not_proven(
    predicate: dict[str, Any], registry: Registry, envelope: Envelope, word: list[str]
) -> tuple[str, str, None]:
    signed = envelope.signature is not None
    word.extend(recomputation.check_exercised(predicate, registry))
    further = recomputation.check_not_proven(predicate, registry, signed=signed)
    word.extend(f"not_proven: {text}" for text in further)
    return "pass", f"{len(predicate['not_proven'])} limits, none left out", None


def _check_rerun(
    predicate: dict[str, Any], registry: Registry, options: Options
) -> tuple[str, str, None]:
    if not options.rerun:
        return "not_checked", "not asked for (--rerun)", None
    done, skipped = recomputation.run_again(predicate, registry, allow_code=options.allow_code)
    if skipped:
        more = f" and {len(skipped) - 1} more" if len(skipped) > 1 else ""
        return "not_checked", f"{done} cases gave the same digests; {skipped[0]}{more}", None
    return "pass", f"{done} cases, run again here, gave the same digests", None


def _always_on_word(predicate: Mapping[str, Any]) -> list[str]:
    """What no bundle can show by itself; docs/bundle-format.md lists the fields."""
    word = [
        "environment: where the session ran, and what the mirror differed in",
        "seal.nonce, seal.time: that the seal was made then, and not before",
        "seal.subjects, seal.git: that these files and this commit were used",
        "items[].broken, items[].label: what was known when they were sealed",
        "changed: that no other library changed while the session ran",
        "seal.corpora: that contracts said this of their corpora",
        "seal.overlays: that no library held another contract that is for one of these cases",
    ]
    if any(case["replicas"][0]["leftovers"] for case in predicate["cases"]):
        word.append("leftovers: scripted answers that a run did not use")
    if any(run["error"] is not None for case in predicate["cases"] for run in _runs(case)) or any(
        case["replicas"][0]["error_b"] is not None for case in predicate["cases"]
    ):
        word.append("error, error_b: why a run was stopped or could not be made")
    return word


def _runs(case: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [run for replica in case["replicas"] for run in replica["runs"]]


def _answer(
    account: _Account, predicate: Mapping[str, Any], keyid: str | None, options: Options
) -> Report:
    claim = predicate["verdict"]
    if keyid is None:
        result = "unknown_origin"
    else:
        result = {True: "holds", False: "fails", None: "pending"}[claim["holds"]]
    code = EXIT[result]
    if options.expect == "any" and keyid is not None:
        code = 0
    return Report(result, code, tuple(account.steps), tuple(account.word), claim, keyid)
