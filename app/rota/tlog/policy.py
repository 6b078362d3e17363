"""Policy files (c2sp.org/tlog-policy): which logs, which witnesses, and how many of them must agree."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from rota.errors import MalformedError, QuorumError
from rota.tlog.checkpoint import Checkpoint, parse_checkpoint
from rota.tlog.cosignature import check_cosignature
from rota.tlog.keys import COSIGNATURE, ED25519, MLDSA_COSIGNATURE, Verifier, read_verifier
from rota.tlog.notes import parse_note
from rota.tlog.opening import open_note
from rota.tlog.strict import number

NONE = "none"
MOST = 64  # logs, witnesses or groups of one policy
AHEAD = 30  # seconds that a witness's clock may be before ours

_GOOD = re.compile(rb"[\x09\x0a\x20-\x7e\x80-\xff]*")


@dataclass(frozen=True)
class Witness:
    """A witness by its name in the policy, and where it takes checkpoints, if that is known."""

    name: str
    key: Verifier
    url: str = ""


@dataclass(frozen=True)
class Group:
    """A set of witnesses and groups of which this many must agree."""

    name: str
    needed: int
    members: tuple[str, ...]


@dataclass
class Policy:
    """What to trust. `quorum` names a witness or a group, or is NONE."""

    logs: list[Verifier] = field(default_factory=list)
    witnesses: dict[str, Witness] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    quorum: str = NONE

    def check(self, data: bytes, now: int) -> Checkpoint:
        """Return the checkpoint of a note that a log of ours signed and the quorum cosigned.

        Raises MalformedError, SignatureError or QuorumError.
        """
        note = parse_note(data)
        checkpoint = parse_checkpoint(note.text)
        open_note(note, [log for log in self.logs if log.name == checkpoint.origin])
        agreed = self.agreeing(data, now)
        if not self.reached(agreed):
            shown = ", ".join(sorted(agreed)) or "nobody"
            raise QuorumError(f"cosigned by {shown}, which does not reach the quorum {self.quorum}")
        return checkpoint

    def agreeing(self, data: bytes, now: int) -> Mapping[str, int]:
        """Return the witnesses that cosigned, by name, with the time of each. Raises SignatureError.

        A cosignature from the future does not count.
        """
        note = parse_note(data)
        keys = {(witness.key.name, witness.key.id): witness for witness in self.witnesses.values()}
        found = {}
        for signature in note.signatures:
            witness = keys.get((signature.name, signature.key_id))
            if witness is not None:
                cosigned = check_cosignature(witness.key, note.text, signature)
                if cosigned.time <= now + AHEAD:
                    found[witness.name] = cosigned.time
        return found

    def reached(self, agreed: Mapping[str, int]) -> bool:
        """Tell whether these witnesses, by name, reach the quorum."""
        return self.quorum == NONE or self._agrees(self.quorum, agreed)

    def _agrees(self, name: str, agreed: Mapping[str, int]) -> bool:
        group = self.groups.get(name)
        if group is None:
            return name in agreed
        return sum(self._agrees(member, agreed) for member in group.members) >= group.needed


def parse_policy(data: bytes) -> Policy:
    """Read a policy file. Raises MalformedError with the number of the line."""
    if not _GOOD.fullmatch(data):
        raise MalformedError("a policy holds no control characters but tabs and line ends")
    policy, quorums, grouped = Policy(), 0, set[str]()
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise MalformedError("a policy is UTF-8") from error
    for at, line in enumerate(lines, 1):
        words = [word for word in re.split(r"[ \t]+", line.strip(" \t")) if word]
        if not words or words[0].startswith("#"):
            continue
        try:
            if words[0] == "quorum":
                quorums += 1
                _quorum(policy, words)
            else:
                _define(policy, words, grouped)
        except MalformedError as error:
            raise MalformedError(f"line {at} of the policy: {error}") from error
    if quorums != 1:
        raise MalformedError("a policy has exactly one line `quorum NAME`, or `quorum none`")
    return policy


def _define(policy: Policy, words: list[str], grouped: set[str]) -> None:
    match words:
        case ["log", key, *rest] if len(rest) <= 1:
            _log(policy, key)
        case ["witness", name, key, *rest] if len(rest) <= 1:
            _new_name(policy, name)
            policy.witnesses[name] = Witness(name, _witness_key(policy, key), *rest)
        case ["group", name, needed, *members] if members:
            _new_name(policy, name)
            policy.groups[name] = Group(name, _needed(needed, len(members)), tuple(members))
            for member in members:
                _known(policy, member, but=name)
                if member in grouped:
                    raise MalformedError(f"{member} is a member already")
                grouped.add(member)
        case _:
            raise MalformedError("neither log, witness, group nor quorum, or with too few or too many words")
    if max(len(policy.logs), len(policy.witnesses), len(policy.groups)) > MOST:
        raise MalformedError(f"a policy has at most {MOST} of each")


def _log(policy: Policy, text: str) -> None:
    key = read_verifier(text)
    if key.kind != ED25519:
        raise MalformedError(f"{key.name}: not a key that signs logs")
    _new_key(policy, key)
    policy.logs.append(key)


def _witness_key(policy: Policy, text: str) -> Verifier:
    key = read_verifier(text)
    if key.kind not in (COSIGNATURE, MLDSA_COSIGNATURE):
        raise MalformedError(f"{key.name}: not a key that cosigns")
    _new_key(policy, key)
    return key


def _new_key(policy: Policy, key: Verifier) -> None:
    used = [*policy.logs, *(witness.key for witness in policy.witnesses.values())]
    if any(key.public == other.public for other in used):
        raise MalformedError(f"{key.name}: the same key stands there twice")


def _new_name(policy: Policy, name: str) -> None:
    if name == NONE or name in policy.witnesses or name in policy.groups:
        raise MalformedError(f"{name} is a name already")


def _known(policy: Policy, name: str, but: str = "") -> None:
    if name == but or (name not in policy.witnesses and name not in policy.groups):
        raise MalformedError(f"{name} is not defined above")


def _needed(word: str, count: int) -> int:
    if word in ("all", "any"):
        return count if word == "all" else 1
    needed = number(word)
    if not 1 <= needed <= count:
        raise MalformedError(f"{needed} of {count} members cannot agree")
    return needed


def _quorum(policy: Policy, words: list[str]) -> None:
    if len(words) != 2:  # noqa: PLR2004 - the word and the name
        raise MalformedError("write `quorum NAME`, or `quorum none`")
    if words[1] != NONE:
        _known(policy, words[1])
    policy.quorum = words[1]
