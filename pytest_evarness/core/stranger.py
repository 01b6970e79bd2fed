"""Code of strangers may try to end the process; what it raises is theirs, but for a few things.

Wherever a predicate, a rule, a check, a judge or another part of somebody else is called::

    try:
        answer = part(...)
    except BaseException as error:
        pass_on(error)
        ...  # told as a mistake of the part
"""

from __future__ import annotations

__all__ = ["SignalError", "pass_on"]


class SignalError(BaseException):
    """Our own way out through code of strangers; nothing that is theirs to answer for."""


def pass_on(error: BaseException) -> None:
    """Raise again what is not the stranger's; come back with all the rest.

    ``sys.exit()``, ``pytest.skip()`` and their like are no ordinary exceptions. From a part that
    was asked for an answer they are one more way of not giving it.

    Raises:
        BaseException: The user interrupted, or the kernel itself wants out.
    """
    if isinstance(error, KeyboardInterrupt | SignalError):
        raise error
