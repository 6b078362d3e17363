"""What a receiver answers to a message: whether it was taken, and why not. It is not signed."""

from typing import Literal

from rota.wire.statements import Count, Line, Strict


class Answer(Strict, frozen=True, kw_only=True):
    """`code` names the rule that was broken; with `gap`, `expected` is the number to go on with."""

    state: Literal["done", "refused"]
    reason: Line = ""
    code: Line = ""
    expected: Count = 0
    now: Count = 0  # the answerer's clock, in microseconds since 1970
    report_every: Count = 0  # seconds, from the hub to a server


DONE = Answer(state="done")
