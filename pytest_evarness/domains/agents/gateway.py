"""The one way to a tool: the gates of a call in their order, then the call, then its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from pytest_evarness.core.interfaces import EnvironmentExhausted, NodeBlocked
from pytest_evarness.domains.agents.acting import (
    AllowedCall,
    EffectsFailedError,
    Patience,
    apply_effects,
    effects_of,
    may_reach_network,
)
from pytest_evarness.domains.agents.budget import admit_tool_call
from pytest_evarness.domains.agents.egress import allow_tool
from pytest_evarness.domains.agents.flow import acts_behind
from pytest_evarness.domains.agents.manifest import requires_approval
from pytest_evarness.domains.agents.schema import validator_of, violation
from pytest_evarness.domains.agents.script import Script
from pytest_evarness.domains.agents.state import Intent, RunState, state_of
from pytest_evarness.domains.agents.template import TemplateError, fill_text
from pytest_evarness.domains.agents.text import compact, digest_of_value, plain
from pytest_evarness.world.fault import NOT_ARRIVING

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Context

__all__ = ["Request", "ToolError", "call_tool", "documents_of", "query_of"]

_LOSING = {
    "fail_after": "injected: the answer was lost",
    "malformed": "injected: the answer is malformed",
}
_ALTERING = frozenset({"duplicate_answer", "empty_results"})


class ToolError(Exception):
    """A call gave no answer, and no retry was left."""


@dataclass(frozen=True, slots=True)
class Request:
    """A call that a node decided on.

    Attributes:
        tool: Id or alias.
        args: The argument mapping, filled in.
        offered: Ids of the tools that the graph offers to the node.
        intent: The filled template that names the intent; None to number it.
    """

    tool: str
    args: Mapping[str, Any]
    offered: frozenset[str]
    approve_side_effects: bool = False
    retries: int = 0
    timeout_ms: int = 3000
    intent: str | None = None


def query_of(args: Mapping[str, Any]) -> str:
    """What rules of a tool look at: the argument ``query`` where it is a text, else all of them."""
    query = args.get("query")
    return query if isinstance(query, str) else compact(args)


def call_tool(request: Request, context: Context) -> list[dict[str, Any]]:
    """Make the call, with its retries.

    Returns:
        The documents of the answer.

    Raises:
        NodeBlocked: A gate refused the call; ``policy_decision`` says which.
        ToolError: The arguments break the manifest's schema, or every attempt gave an error.
        EnvironmentExhausted: The scenario scripts no answer for the call.
    """
    return _Calling(request, context).run()


class _Calling:
    """One decided call: its attempts share arguments, digest and intent."""

    def __init__(self, request: Request, context: Context) -> None:
        self.request = request
        self.context = context
        self.state: RunState = state_of(context)
        self.tool = self.state.tool_id(request.tool)
        self.args: dict[str, Any] = plain(request.args)
        self.digest = digest_of_value(self.args)
        self.query = query_of(self.args)

    def run(self) -> list[dict[str, Any]]:
        manifest = self._manifest()
        problem = violation(validator_of(manifest["args"]), self.args)
        intents = self.state.intents.setdefault(self.context.node_id, Intent())
        call = (self.tool, self.digest)
        number = intents.number(call)
        intents.unanswered[call] = number
        name = self._intent(manifest, number, is_valid=problem is None)
        if problem is not None:
            self._emit_error(f"arguments: {problem}", "validate", 1, name)
            raise ToolError(f"{self.tool}: arguments: {problem}")
        error = ""
        for attempt in range(1, self.request.retries + 2):
            rule = self._authorise(manifest)
            outbound = may_reach_network(self._script(manifest).answers, manifest)
            if not allow_tool(self.tool, self.args, self.context, is_outbound=outbound):
                self._deny("egress")
            admit_tool_call(self.context)
            self._announce(manifest, rule, name)
            try:
                found = self._attempt(manifest, rule, name)
            except _LostAnswerError as lost:
                error = lost.error
                self._emit_error(error, lost.phase, attempt, name, lost.injected)
                continue
            del intents.unanswered[call]
            return found
        raise ToolError(f"{self.tool}: {error}")

    # -- the gates -----------------------------------------------------------------------------

    def _manifest(self) -> Mapping[str, Any]:
        if self.tool not in self.request.offered:
            self._deny("not_offered")
        manifest = self.state.manifests.get(self.tool)
        if manifest is None:
            self._deny("no_manifest")
        return manifest

    def _authorise(self, manifest: Mapping[str, Any]) -> str:
        """The rule that allows this attempt; each attempt spends one use of an approval."""
        safety = manifest["safety"]
        changes = safety["side_effects"] != "read"
        needs_approval = requires_approval(manifest)
        if changes and not self.request.approve_side_effects:
            self._deny("side_effects_not_approved")
        if not changes and not needs_approval:
            return "read_only"
        now_ms = self.context.clock.now_ms
        rule = self.state.authority.use(self.digest, now_ms, tool=self.tool)
        if rule == "approval":
            return rule
        if rule is not None:
            self._deny(rule)
        if needs_approval:
            self._deny("approval_missing")
        if self.state.authority.is_withdrawn(now_ms, self._is_behind):
            # Nobody approved exactly this call, and what was approved before it is over.
            self._deny("approval_stale")
        return "approve_side_effects"

    def _is_behind(self, gate: str) -> bool:
        context = self.context
        return context.node_id in acts_behind(context.graph, context.overlays, gate)

    def _deny(self, rule: str) -> NoReturn:
        payload: dict[str, Any] = {
            "capability": self.tool,
            "decision": "deny",
            "rule": rule,
            "args": self.args,
            "args_digest": self.digest,
            "approved": self.state.authority.approved(),
        }
        if self.context.policy_revision is not None:
            payload["revision"] = self.context.policy_revision
        self.context.emit("policy_decision", payload)
        raise NodeBlocked(f"policy: {self.tool} refused: {rule}")

    # -- the call ------------------------------------------------------------------------------

    def _intent(self, manifest: Mapping[str, Any], number: int, *, is_valid: bool) -> str:
        if self.request.intent is not None:
            return self.request.intent
        if manifest["intent"] is not None:
            try:
                return fill_text(manifest["intent"], query=self.query, args=self.args)
            except TemplateError as error:
                # Arguments that the manifest refuses are told as that, whatever they lack.
                if is_valid:
                    raise TemplateError(f"{self.tool}: intent: {error}") from None
        return f"{self.context.node_id}#{number}"

    def _announce(self, manifest: Mapping[str, Any], rule: str, intent: str) -> None:
        decision: dict[str, Any] = {"rule": rule}
        if self.context.policy_revision is not None:
            decision["revision"] = self.context.policy_revision
        self.context.emit(
            "tool_called",
            {
                "tool": self.tool,
                "tool_version": manifest["version"],
                "query": self.query,
                "args": self.args,
                "args_digest": self.digest,
                "side_effects": manifest["safety"]["side_effects"],
                "network": manifest["safety"]["network"],
                "mode": "sim",
                "intent_id": intent,
                "decision": decision,
            },
        )

    def _attempt(self, manifest: Mapping[str, Any], rule: str, intent: str) -> list[dict[str, Any]]:
        hits = self.state.faults.hits(self.tool)
        if hits & NOT_ARRIVING:
            raise self._lost("injected: the call did not arrive", "before", *(hits & NOT_ARRIVING))
        answer = self._answer(manifest)
        patience = Patience(self.context.clock, self.request.timeout_ms)
        self._act(answer, manifest, rule, intent, patience)
        delay = self.state.faults.delay_ms(self.tool)
        late = ("delay_ms",) if delay else ()
        too_late = patience.wait(delay)
        if too_late is not None:
            # The other side did its work; only nobody waited for the answer.
            raise self._lost(too_late, "after", *late)
        for name, error in _LOSING.items():
            if name in hits:
                raise self._lost(error, "after", *late, name)
        if "raise" in answer:
            raise self._lost(str(answer["raise"]), "after", *late)
        result = [] if "empty_results" in hits else answer["result"]
        documents = documents_of(result, self.tool)
        injected = (*self._labels(*late, *(hits & _ALTERING)), *self._inject(documents))
        self._emit_result(result, documents, intent, injected)
        if "duplicate_answer" in hits:
            self._emit_result(result, documents, intent, injected, duplicate=True)
        return documents

    def _act(
        self,
        answer: Mapping[str, Any],
        manifest: Mapping[str, Any],
        rule: str,
        intent: str,
        patience: Patience,
    ) -> None:
        """Do to the world what the call does."""
        call = AllowedCall(
            tool=self.tool,
            intent=intent,
            rule=rule,
            approval=self.digest if rule == "approval" else None,
            query=self.query,
            args=self.args,
        )
        effects = effects_of(answer, manifest)
        try:
            apply_effects(effects, call, self.state, self.context, patience)
        except EffectsFailedError as failed:
            injected = () if failed.injected is None else (failed.injected,)
            raise _LostAnswerError(failed.reason, failed.phase, injected) from None

    def _labels(self, *names: str) -> tuple[str, ...]:
        """Faults of the tool as the scenario names them."""
        return tuple(sorted(self.state.faults.label(self.tool, name) for name in names))

    def _lost(self, error: str, phase: str, *names: str) -> _LostAnswerError:
        return _LostAnswerError(error, phase, self._labels(*names))

    def _script(self, manifest: Mapping[str, Any]) -> Script:
        script = self.state.tools.get(self.tool)
        if script is None:
            # The manifest's own rules answer only where the scenario does not name the tool.
            script = self.state.tools[self.tool] = Script(
                self.tool, manifest["sim"], is_background=True
            )
        return script

    def _answer(self, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
        script = self._script(manifest)
        answer = script.take(self.state.call(self.query))
        if answer is not None:
            return answer
        if script.scripted == 0 and not script.is_background:
            return {"result": []}
        raise EnvironmentExhausted(self.tool, script.scripted, script.calls, script.misfit())

    def _inject(self, documents: list[dict[str, Any]]) -> list[str]:
        markers = self.state.markers("tool_result")
        for index, marker in enumerate(markers.values()):
            if documents:
                documents[0]["text"] = f"{documents[0]['text']}\n{marker}".lstrip("\n")
            else:
                documents.append({"id": f"attack-{index}", "subject": "", "text": marker})
        return list(markers)

    # -- events --------------------------------------------------------------------------------

    def _emit_result(
        self,
        result: Any,
        documents: Sequence[Mapping[str, Any]],
        intent: str,
        injected: Sequence[str],
        *,
        duplicate: bool = False,
    ) -> None:
        docs = [{key: doc[key] for key in ("id", "subject", "text")} for doc in documents]
        payload: dict[str, Any] = {
            "tool": self.tool,
            "count": len(docs),
            "docs": docs,
            "intent_id": intent,
        }
        if not _is_documents(result):
            payload["result"] = result
        if duplicate:
            payload["duplicate"] = True
        if injected:
            payload["injected"] = list(injected)
        self.context.emit("tool_result", payload)
        if self.state.rehearsal is not None:
            self.state.rehearsal.documents = docs
            self.state.rehearsal.result = () if _is_documents(result) else (result,)

    def _emit_error(
        self, error: str, phase: str, attempt: int, intent: str, injected: Sequence[str] = ()
    ) -> None:
        payload: dict[str, Any] = {
            "tool": self.tool,
            "error": error,
            "phase": phase,
            "attempt": attempt,
            "intent_id": intent,
        }
        if injected:
            payload["injected"] = list(injected)
        if self.state.rehearsal is not None:
            self.state.rehearsal.error = error
        self.context.emit("tool_error", payload)


class _LostAnswerError(Exception):
    def __init__(self, error: str, phase: str, injected: Sequence[str]) -> None:
        super().__init__(error)
        self.error = error
        self.phase = phase
        self.injected = injected


_SUBJECTS = ("subject", "title")
_BODIES = ("text", "snippet", "body")


def _is_documents(result: Any) -> bool:
    return isinstance(result, list) and all(isinstance(entry, Mapping) for entry in result)


def documents_of(result: Any, tool: str) -> list[dict[str, Any]]:
    """Bring an answer into documents ``{id, subject, text, ...}``.

    A list gives one document for each entry, anything else but null gives one. ``text`` is the
    entry's ``text``, ``snippet`` or ``body``, else what else it holds as compact JSON, else its
    subject. Other keys of the entry are kept for the nodes that read them.
    """
    entries = result if isinstance(result, list) else [] if result is None else [result]
    return [_document(entry, f"{tool}-{number}") for number, entry in enumerate(entries, 1)]


def _document(entry: Any, name: str) -> dict[str, Any]:
    if not isinstance(entry, Mapping):
        return {
            "id": name,
            "subject": "",
            "text": entry if isinstance(entry, str) else compact(entry),
        }
    # A null says that nothing stands there, as a row of a table has it; it is no word to read.
    subject = next((entry[key] for key in _SUBJECTS if entry.get(key) is not None), "")
    named = ("id", *_SUBJECTS)
    rest = {
        key: value
        for key, value in entry.items()
        if key not in named and not (value is None and key in _BODIES)
    }
    text = next((rest[key] for key in _BODIES if isinstance(rest.get(key), str)), None)
    if text is None:
        text = compact(rest) if rest else _as_text(subject)
    found = plain(entry)
    own = entry.get("id")
    name = name if own is None else _as_text(own)
    found.update(id=name, subject=_as_text(subject), text=text)
    return dict(found)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else compact(value)
