"""A release statement as the log holds it: an act like every other one, whose details are the statement."""

import msgspec

from rota.acts.act import Act, read_act
from rota.errors import InputError, MalformedError
from rota.wire.statements import ReleaseStatement

KIND = "release.make"
LONGEST = 32_768  # bytes of an entry, so that it fits into a message with its proof


def written(statement: ReleaseStatement, actor: str) -> bytes:
    """Return the entry that says so, made once. Raises InputError where it is too long."""
    act = Act(
        kind=KIND,
        actor=actor,
        subject=f"app:{statement.app}",
        details=msgspec.to_builtins(statement),
    )
    entry = bytes(act)
    if len(entry) > LONGEST:
        raise InputError(
            f"What {statement.app} runs takes {len(entry)} bytes to say, and {LONGEST} is the most.",
            "Shorten the commands and the values of [env] in rota.toml; scripts belong into files.",
        )
    return entry


def read(entry: bytes) -> ReleaseStatement:
    """Return what an entry says. Raises MalformedError where it is no release statement of ours."""
    act = read_act(entry)
    if act.kind != KIND:
        raise MalformedError(f"an act {act.kind}, and no release statement")
    try:
        statement = msgspec.convert(dict(act.details), ReleaseStatement)
    except msgspec.ValidationError as error:
        raise MalformedError(f"not a release statement: {error}") from error
    if act.subject != f"app:{statement.app}" or msgspec.to_builtins(statement) != act.details:
        raise MalformedError("not a release statement as this program writes it")
    return statement
