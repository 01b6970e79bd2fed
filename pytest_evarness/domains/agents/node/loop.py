"""The loop: a model decides, tools answer, until it answers or its turns are up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from pytest_evarness.core.interfaces import NodeBlocked
from pytest_evarness.domains.agents.egress import EGRESS_EVENTS
from pytest_evarness.domains.agents.gateway import Request, ToolError, call_tool
from pytest_evarness.domains.agents.node.declare import declare
from pytest_evarness.domains.agents.node.loop_grounding import GroundingRules, check_grounding
from pytest_evarness.domains.agents.node.loop_script import React
from pytest_evarness.domains.agents.node.loop_transcript import Transcript
from pytest_evarness.domains.agents.node.model import ask_model
from pytest_evarness.domains.agents.node.tool import Inert
from pytest_evarness.domains.agents.state import state_of
from pytest_evarness.domains.agents.text import digest_of_value, joined, plain
from pytest_evarness.world.vocabulary import EFFECT_TYPES

if TYPE_CHECKING:
    from pytest_evarness.core.interfaces import Context

__all__ = ["LOOP_CONTROLLER"]

_SEARCH_AGAIN = "nothing was found; search again in other words before you answer"
_NO_EVIDENCE = "an answer needs evidence: call a tool that finds some"
_REPEATED = "that call was made and answered; do something else or answer"
_CUT = "what you said arrived cut and could not be read; say it again"


class _Loop(Inert):
    tools: list[Annotated[str, Field(min_length=1)]] = Field(default_factory=list)
    system: str = ""
    max_iterations: Annotated[int, Field(ge=1, le=100)] = 4
    dedup_guard: bool = True
    on_stop: Literal["best_effort", "answer_partial", "fail"] = "best_effort"
    require_evidence: bool = True
    grounding_check: Literal["warn", "off", "retry"] = "warn"
    grounding_rules: GroundingRules = Field(default_factory=GroundingRules)
    grounding_retries: Annotated[int, Field(ge=0, le=100)] = 1
    approve_side_effects: bool = False
    timeout_ms: Annotated[int, Field(ge=1)] = 3000
    tool_mode: Literal["sim"] = "sim"


class _Looping:
    """One run of one loop node."""

    def __init__(self, config: _Loop, question: str, context: Context) -> None:
        self.config = config
        self.context = context
        self.state = state_of(context)
        self.tools = [self.state.tool_id(name) for name in config.tools]
        self.transcript = Transcript(config.system, question)
        self.iteration = 0
        self.last_answer: str | None = None
        self._answered: set[tuple[str, str]] = set()
        self._searched_in_vain = False
        self._grounding_retries = 0

    def run(self) -> str:
        """The answer, or what ``on_stop`` makes of none."""
        most = self.config.max_iterations
        self.context.emit("loop_started", {"tools": self.tools, "max_iterations": most})
        for self.iteration in range(1, most + 1):
            self.context.turn()
            self.context.emit("loop_iteration", {"iteration": self.iteration})
            try:
                answer = self._turn()
            except NodeBlocked:
                self._finish("blocked")
                raise
            if answer is not None:
                self._finish("answer")
                return answer
        self._finish("max_iterations")
        return self._without_answer()

    def _turn(self) -> str | None:
        """One decision of the model; its answer, where that is one that stands."""
        react = self.state.part(React)
        reply = ask_model(self.transcript.text, react.answer, self.context)
        if reply.is_cut:
            self.transcript.note(_CUT)
        elif reply.call is not None:
            self._act(reply.call["tool"], plain(reply.call["args"]))
        elif self._may_stand(reply.text):
            return reply.text
        return None

    # -- a call ----------------------------------------------------------------------------------

    def _act(self, name: str, args: Mapping[str, Any]) -> None:
        tool = self.state.tool_id(name)
        call = (tool, digest_of_value(args))
        self.transcript.act(tool, args)
        if tool not in self.tools:
            self._guard("tool_not_allowed", call)  # and the gates refuse it, which blocks
        elif self.config.dedup_guard and call in self._answered:
            self._guard("repeated_action", call)
            self.transcript.note(_REPEATED)
            return
        request = Request(
            tool=tool,
            args=args,
            offered=frozenset(self.tools),
            approve_side_effects=self.config.approve_side_effects,
            timeout_ms=self.config.timeout_ms,
        )
        try:
            documents = call_tool(request, self.context)
        except ToolError as error:
            self.transcript.fail(str(error))
            return
        self._answered.add(call)
        self._searched_in_vain = not documents
        self.transcript.observe(documents)

    def _guard(self, reason: str, call: tuple[str, str] | None = None) -> None:
        payload: dict[str, Any] = {"reason": reason, "iteration": self.iteration}
        if call is not None:
            payload |= {"tool": call[0], "args_digest": call[1]}
        self.context.emit("loop_guard", payload)

    # -- an answer -------------------------------------------------------------------------------

    def _may_stand(self, answer: str) -> bool:
        """Whether the answer is taken; where not, the model is told why."""
        self.last_answer = answer
        missing = self._missing_evidence()
        if missing is None:
            missing = self._missing_ground(answer)
        if missing is not None:
            self.transcript.answer(answer)
            self.transcript.note(missing)
        return missing is None

    def _missing_evidence(self) -> str | None:
        # A loop without tools has no way to evidence, so none is asked of it.
        if not self.config.require_evidence or not self.tools or self.transcript.documents:
            return None
        if self._searched_in_vain:
            self._searched_in_vain = False
            self._guard("empty_search_retry")
            return _SEARCH_AGAIN
        self._guard("final_without_evidence")
        return _NO_EVIDENCE

    def _missing_ground(self, answer: str) -> str | None:
        config, transcript = self.config, self.transcript
        if config.grounding_check == "off":
            return None
        found = check_grounding(
            answer, transcript.question, transcript.documents, config.grounding_rules
        )
        payload: dict[str, Any] = {
            "ok": not found.problems,
            "iteration": self.iteration,
            "documents": len(transcript.documents),
            "overlap": found.overlap,
            "problems": list(found.problems),
        }
        self.context.emit("grounding_checked", payload)
        is_last = self._grounding_retries >= config.grounding_retries
        if not found.problems or config.grounding_check == "warn" or is_last:
            return None
        self._grounding_retries += 1
        return f"the answer is not grounded in what was observed: {'; '.join(found.problems)}"

    # -- the end ---------------------------------------------------------------------------------

    def _finish(self, stopped: str) -> None:
        self.context.emit("loop_finished", {"iterations": self.iteration, "stopped": stopped})

    def _without_answer(self) -> str:
        turns = f"{self.iteration} turn{'' if self.iteration == 1 else 's'}"
        found = self.transcript.found
        if self.config.on_stop == "fail":
            raise NodeBlocked(f"loop_controller: no answer after {turns}")
        if self.config.on_stop == "answer_partial":
            return f"No answer after {turns}. Found so far:\n{found or 'nothing'}"
        return found if self.last_answer is None else self.last_answer


def _loop(inputs: Mapping[str, list[Any]], config: _Loop, context: Context) -> str:
    return _Looping(config, joined(inputs.get("in", [])), context).run()


LOOP_CONTROLLER = declare(
    "loop_controller",
    "Lets the simulated model call tools, turn by turn, until it answers.",
    _Loop,
    _loop,
    inputs={"in": "text"},
    output="text",
    emits=(
        "loop_started",
        "loop_iteration",
        "llm_request",
        "llm_response",
        "llm_error",
        "tool_called",
        "tool_result",
        "tool_error",
        "policy_decision",
        "loop_guard",
        "grounding_checked",
        "loop_finished",
        *EGRESS_EVENTS,
        *EFFECT_TYPES,
    ),
    traits=frozenset({"model", "tool"}),
    is_loop=True,
)
