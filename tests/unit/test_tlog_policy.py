"""Policies, self-contained proofs, and what a witness answers."""

import base64
from http import HTTPStatus

import pytest

from rota.errors import MalformedError, ProofError, QuorumError, SignatureError
from rota.tlog.addcheckpoint import Request, Seen, judge, make_request, parse_request
from rota.tlog.checkpoint import Checkpoint
from rota.tlog.cosignature import cosign
from rota.tlog.keys import COSIGNATURE, Signer, signer
from rota.tlog.merkle import (
    EMPTY_ROOT,
    Frontier,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    parent_hash,
    range_root,
)
from rota.tlog.notes import Note, Signature, sign_note
from rota.tlog.policy import Policy, parse_policy
from rota.tlog.proof import Proof, parse_proof, verify_proof

LOG = signer("hub.example/tlog", b"l" * 32)
OTHER = signer("other.example/tlog", b"o" * 32)
W1, W2, W3 = (signer(f"w{n}", bytes([n]) * 32, COSIGNATURE) for n in (1, 2, 3))
NOW = 1_700_000_000
ENTRIES = [b"leaf %d" % number for number in range(20)]

HEAD = f"""# who we trust
log {LOG.verifier} https://hub.example/log
witness one {W1.verifier} https://w1.example/
witness two\t{W2.verifier}
witness three {W3.verifier}
group pair all one two
group some 1 pair three
"""


def read(level: int, index: int) -> bytes:
    hashes = [leaf_hash(entry) for entry in ENTRIES]
    for _ in range(level):
        hashes = [parent_hash(*hashes[at : at + 2]) for at in range(0, len(hashes) - 1, 2)]
    return hashes[index]


def root(size: int) -> bytes:
    return range_root(0, size, read) if size else EMPTY_ROOT


def note(size: int, by: Signer = LOG, *lines: Signature, hash_: bytes | None = None) -> Note:
    signed = sign_note(str(Checkpoint(by.verifier.name, size, hash_ or root(size))), [by])
    return Note(signed.text, (*signed.signatures, *lines))


def cosigned(size: int, *witnesses: Signer, time: int = NOW) -> bytes:
    plain = note(size)
    return str(
        Note(plain.text, (*plain.signatures, *(cosign(w, plain.text, time) for w in witnesses)))
    ).encode()


@pytest.mark.parametrize(
    ("quorum", "witnesses", "reached"),
    [
        ("none", [], True),
        ("one", [W1], True),
        ("one", [W2, W3], False),
        ("pair", [W1], False),
        ("pair", [W1, W2], True),
        ("some", [W3], True),
        ("some", [W1], False),
        ("some", [W1, W2], True),
        ("some", [], False),
    ],
)
def test_a_quorum(quorum: str, witnesses: list[Signer], reached: bool) -> None:  # noqa: FBT001
    policy = parse_policy((HEAD + f"quorum {quorum}").encode())
    data = cosigned(8, *witnesses)
    if reached:
        assert policy.check(data, NOW).size == 8
    else:
        with pytest.raises(QuorumError, match=f"quorum {quorum}"):
            policy.check(data, NOW)


def test_a_cosignature_from_the_future_does_not_count() -> None:
    policy = parse_policy((HEAD + "quorum one\n").encode())
    policy.check(cosigned(8, W1, time=NOW + 30), NOW)
    with pytest.raises(QuorumError):
        policy.check(cosigned(8, W1, time=NOW + 31), NOW)


def test_a_log_that_the_policy_does_not_name_is_refused() -> None:
    policy = parse_policy((HEAD + "quorum none\n").encode())
    with pytest.raises(SignatureError):
        policy.check(str(note(8, OTHER)).encode(), NOW)
    as_ours = sign_note(str(Checkpoint(LOG.verifier.name, 8, root(8))), [OTHER])
    with pytest.raises(SignatureError):
        policy.check(str(as_ours).encode(), NOW)


POLICY = HEAD + "quorum some\n"
BAD_POLICIES = {
    "no quorum": HEAD,
    "two quorums": POLICY + "quorum none\n",
    "an unknown quorum": HEAD + "quorum nobody\n",
    "a quorum without a name": HEAD + "quorum\n",
    "a quorum of two words": HEAD + "quorum one two\n",
    "an unknown word": POLICY + "logs x\n",
    "a log of a witness's key": POLICY + f"log {signer('x', b'x' * 32, COSIGNATURE).verifier}\n",
    "a witness of a log's key": POLICY + f"witness four {OTHER.verifier}\n",
    "a bad key": POLICY + "log a+b+c\n",
    "the same key under another name": POLICY
    + f"witness four {signer('other', bytes([1]) * 32, COSIGNATURE).verifier}\n",
    "a name twice": POLICY + f"witness one {signer('x', b'x' * 32, COSIGNATURE).verifier}\n",
    "a group's name twice": POLICY + "group pair any three\n",
    "a name of nothing": POLICY + f"witness none {signer('x', b'x' * 32, COSIGNATURE).verifier}\n",
    "a member of two groups": POLICY + "group more any one\n",
    "a member defined below": "group early any one\n" + POLICY,
    "a group of itself": POLICY + "group own any own\n",
    "a group of nobody": POLICY + "group empty any\n",
    "more than there are": HEAD.replace("some 1", "some 3") + "quorum some\n",
    "none of them": HEAD.replace("some 1", "some 0") + "quorum some\n",
    "a count that is no number": HEAD.replace("some 1", "some +1") + "quorum some\n",
    "CR": POLICY.replace("\n", "\r\n"),
    "NUL": POLICY + "\x00",
    "DEL": POLICY + "\x7f",
    "too many logs": POLICY
    + "".join(f"log {signer(f'log{n}', n.to_bytes(32, 'big')).verifier}\n" for n in range(1000, 1064)),
}


@pytest.mark.parametrize("case", BAD_POLICIES)
def test_bad_policies(case: str) -> None:
    with pytest.raises(MalformedError):
        parse_policy(BAD_POLICIES[case].encode())


def test_a_policy_is_utf8_and_an_empty_one_trusts_nobody() -> None:
    with pytest.raises(MalformedError, match="UTF-8"):
        parse_policy(b"# \xff\nquorum none\n")
    with pytest.raises(SignatureError):
        parse_policy(b"quorum none\n").check(str(note(8)).encode(), NOW)
    many = "".join(f"log {signer(f'log{n}', n.to_bytes(32, 'big')).verifier}\n" for n in range(1000, 1032))
    assert len(parse_policy((many + "quorum none").encode()).logs) == 32


def proof(index: int, size: int, *witnesses: Signer, extra: bytes | None = None) -> Proof:
    return Proof(index, tuple(inclusion_proof(index, size, read)), cosigned(size, *witnesses), extra)


def test_a_proof_is_checked_from_the_entrys_own_bytes() -> None:
    policy = parse_policy((HEAD + "quorum pair\n").encode())
    for size in (1, 2, 7, 8, 20):
        for index in range(size):
            made = parse_proof(bytes(proof(index, size, W1, W2, extra=b"\x00hint")))
            assert made == proof(index, size, W1, W2, extra=b"\x00hint")
            assert verify_proof(made, ENTRIES[index], policy, NOW).size == size
            with pytest.raises(ProofError):
                verify_proof(made, b"another", policy, NOW)
    with pytest.raises(QuorumError):
        verify_proof(proof(3, 8, W1), ENTRIES[3], policy, NOW)


def test_a_proof_that_is_whole_in_itself_but_of_another_key_is_refused() -> None:
    forged = Proof(3, tuple(inclusion_proof(3, 8, read)), str(note(8, OTHER)).encode())
    with pytest.raises(SignatureError):
        verify_proof(forged, ENTRIES[3], parse_policy((HEAD + "quorum none\n").encode()), NOW)
    missing = Proof(3, forged.path, b"")
    with pytest.raises(MalformedError):
        verify_proof(missing, ENTRIES[3], Policy([OTHER.verifier]), NOW)


GOOD_PROOF = bytes(proof(3, 8, extra=b"hint")).decode()
BAD_PROOFS = {
    "another version": GOOD_PROOF.replace("@v1", "@v2"),
    "no index": GOOD_PROOF.replace("index 3\n", ""),
    "an index with a zero": GOOD_PROOF.replace("index 3", "index 03"),
    "a negative index": GOOD_PROOF.replace("index 3", "index -3"),
    "extra after the index": GOOD_PROOF.replace("extra aGludA==\nindex 3", "index 3\nextra aGludA=="),
    "extra twice": GOOD_PROOF.replace("extra aGludA==", "extra aGludA==\nextra aGludA=="),
    "a short hash": GOOD_PROOF.replace("index 3\n", "index 3\nAAAA\n"),
    "too many hashes": GOOD_PROOF.replace(
        "index 3\n", "index 3\n" + (base64.b64encode(bytes(32)).decode() + "\n") * 61
    ),
    "CRLF": GOOD_PROOF.replace("\n", "\r\n"),
    "a space": GOOD_PROOF.replace("index 3\n", "index 3 \n"),
    "no checkpoint": GOOD_PROOF.partition("\n\n")[0],
    "not ASCII": GOOD_PROOF.replace("index", "índex"),
    "too long": GOOD_PROOF + "x" * 140_000,
    "empty": "",
}


@pytest.mark.parametrize("case", BAD_PROOFS)
def test_bad_proofs(case: str) -> None:
    with pytest.raises(MalformedError):
        parse_proof(BAD_PROOFS[case].encode())


LOGS = {LOG.verifier.name: [LOG.verifier]}


def asked(old: int, new: int, *, hash_: bytes | None = None, proof: list[bytes] | None = None) -> Request:
    steps = consistency_proof(old, new, read) if proof is None else proof
    return make_request(old, steps, note(new, hash_=hash_))


def test_what_a_witness_cosigns() -> None:
    assert judge(asked(0, 8), LOGS, None) is None
    assert judge(asked(0, 0), LOGS, None) is None
    assert judge(asked(0, 8), LOGS, Seen(0, EMPTY_ROOT)) is None
    for old in range(1, 21):
        for new in range(old, 21):
            assert judge(asked(old, new), LOGS, Seen(old, root(old))) is None


@pytest.mark.parametrize(
    ("request_", "seen", "status", "size"),
    [
        (make_request(0, [], note(8, OTHER)), None, 404, None),
        (
            make_request(0, [], note(8, LOG, Signature(LOG.verifier.name, LOG.verifier.id, bytes(64)))),
            None,
            403,
            None,
        ),
        (make_request(0, [], sign_note(note(8).text, [OTHER])), None, 403, None),
        (asked(0, 8), Seen(8, root(8)), 409, 8),
        (asked(8, 20), None, 409, 0),
        (asked(8, 20), Seen(7, root(7)), 409, 7),
        (asked(8, 20), Seen(9, root(9)), 409, 9),
        (asked(8, 20), Seen(8, root(7)), 422, None),
        (asked(8, 20, proof=[]), Seen(8, root(8)), 422, None),
        (asked(8, 20, hash_=root(19)), Seen(8, root(8)), 422, None),
        (asked(8, 8, hash_=root(7)), Seen(8, root(8)), 422, None),
        (asked(8, 8, proof=[root(8)]), Seen(8, root(8)), 422, None),
        (asked(0, 8, proof=[root(8)]), None, 422, None),
    ],
)
def test_what_a_witness_refuses(request_: Request, seen: Seen | None, status: int, size: int | None) -> None:
    refusal = judge(request_, LOGS, seen)
    assert refusal is not None
    assert (refusal.status, refusal.size) == (HTTPStatus(status), size)


BODY = bytes(asked(3, 8)).decode()
BAD_REQUESTS = {
    "no old size": BODY.replace("old 3\n", ""),
    "a leading zero": BODY.replace("old 3", "old 03"),
    "beyond the new size": BODY.replace("old 3", "old 9"),
    "64 hashes": BODY.replace("old 3\n", "old 3\n" + (base64.b64encode(bytes(32)).decode() + "\n") * 64),
    "a short hash": BODY.replace("old 3\n", "old 3\nAAAA\n"),
    "CRLF": BODY.replace("\n", "\r\n"),
    "no checkpoint": BODY.partition("\n\n")[0] + "\n\n",
    "no note": BODY.partition("\n\n")[0],
    "empty": "",
    "too long": BODY + "x" * 140_000,
    "not ASCII": BODY.replace("old 3", "old ٣"),
}


@pytest.mark.parametrize("case", BAD_REQUESTS)
def test_bad_requests(case: str) -> None:
    with pytest.raises(MalformedError):
        parse_request(BAD_REQUESTS[case].encode())


def test_a_request_is_read_as_it_was_written() -> None:
    for old, new in ((0, 8), (3, 8), (8, 8), (0, 0)):
        assert parse_request(bytes(asked(old, new))) == asked(old, new)
    frontier = Frontier()
    assert frontier.root() == root(0)
