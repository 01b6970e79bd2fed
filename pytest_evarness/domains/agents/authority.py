"""Approvals of one run: what was granted, what is left of it, and what a call may rely on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["Authority", "Grant"]


@dataclass(slots=True)
class Grant:
    """One approval.

    Attributes:
        gate: The gate that asked.
        digest: Of exactly what was approved.
        tool: The tool whose call was approved; None where it was something else than a call.
        granted_at_ms: Simulated time of the grant.
        expires_ms: Simulated milliseconds that it lives; None for the rest of the run.
        uses_left: Calls that it still covers.
    """

    gate: str
    digest: str
    tool: str | None
    granted_at_ms: int
    expires_ms: int | None
    uses_left: int
    is_revoked: bool = False

    def is_stale(self, now_ms: int) -> bool:
        """Whether it was revoked or has expired."""
        if self.is_revoked or self.expires_ms is None:
            return self.is_revoked
        return now_ms - self.granted_at_ms >= self.expires_ms

    def end(self, now_ms: int) -> str | None:
        """Why it covers nothing any more, as the rule of a refusal; None while it lives."""
        if self.is_stale(now_ms):
            return "approval_stale"
        return "approval_used" if self.uses_left <= 0 else None


@dataclass(slots=True)
class Authority:
    """All approvals of a run, in the order in which they were granted."""

    grants: list[Grant] = field(default_factory=list)

    def grant(self, grant: Grant) -> None:
        """Add an approval."""
        self.grants.append(grant)

    def revoke(self, gate: str) -> list[Grant]:
        """Take back what ``gate`` granted; the approvals that this ended."""
        ended = [grant for grant in self.grants if grant.gate == gate and not grant.is_revoked]
        for grant in ended:
            grant.is_revoked = True
        return ended

    def use(
        self,
        digest: str,
        now_ms: int,
        *,
        tool: str | None,
        is_about: Callable[[str], bool] = lambda _: True,
    ) -> str | None:
        """Spend one use of a live approval of exactly ``digest``, for ``tool`` alone.

        Equal arguments of another tool are another act, and so is a call whose arguments read like
        what somebody approved that was no call.

        Args:
            digest: Of the act.
            now_ms: Simulated time.
            tool: The tool that is called; None where the act is no call.
            is_about: Whether a gate can approve the act; one that asked about something else says
                nothing, whatever digest it has.

        Returns:
            ``approval`` when one was spent, the rule of the refusal when all of this act have
            ended, None when nobody approved it.
        """
        own = [
            grant
            for grant in self.grants
            if (grant.digest, grant.tool) == (digest, tool) and is_about(grant.gate)
        ]
        for grant in own:
            if grant.end(now_ms) is None:
                grant.uses_left -= 1
                return "approval"
        return own[-1].end(now_ms) if own else None

    def is_withdrawn(self, now_ms: int, is_about: Callable[[str], bool]) -> bool:
        """Whether all that was granted about an act was revoked or has expired.

        Args:
            now_ms: Simulated time.
            is_about: Whether a gate is about the act, whatever exactly it approved.
        """
        own = [grant for grant in self.grants if is_about(grant.gate)]
        return bool(own) and all(grant.is_stale(now_ms) for grant in own)

    def approved(self) -> list[str]:
        """Every digest that was approved so far, once each, in order."""
        return list(dict.fromkeys(grant.digest for grant in self.grants))
