"""Signed notes, keys and checkpoints against known vectors, and everything that must be refused."""

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PrivateKey

from rota.errors import MalformedError, SignatureError, TlogError
from rota.tlog.checkpoint import Checkpoint, parse_checkpoint
from rota.tlog.cosignature import check_cosignature, cosign, subtree_message
from rota.tlog.keys import (
    COSIGNATURE,
    ED25519,
    MLDSA_COSIGNATURE,
    Verifier,
    private_text,
    read_signer,
    read_verifier,
    signer,
)
from rota.tlog.merkle import EMPTY_ROOT
from rota.tlog.notes import Note, Signature, parse_note, sign_note
from rota.tlog.opening import open_note, read_log_checkpoint

NEUMANN = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
NEUMANN_PRIVATE = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
ENOCH = "EnochRoot+af0cfe78+ATtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop"
FOO = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
FOO_SIGNATURE = "Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM="
TESSERA = "example.com/log/testdata+33d7b496+AeHTu4Q3hEIMHNqc6fASMsq3rKNx280NI+oO5xCFkkSx"
LOG = signer("log.example.com/control-plane", bytes(range(32)))
LOG_VKEY = "log.example.com/control-plane+6d37697c+AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4"
WITNESS = signer("witness.example.com/w1", bytes(range(32, 64)), COSIGNATURE)
WITNESS_VKEY = "witness.example.com/w1+969980cf+BCmsuuFBvMrwsi4alNNNC8c2HlJtC/4SyJeUvJMilm3X"
ROOT_8 = bytes.fromhex("5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328")
EIGHT = Checkpoint(LOG.verifier.name, 8, ROOT_8)
LOG_LINE = "bTdpfJkKhdZQhqHgaiolNM236OvnLyXpL7lnsG6XG00Bya8d65PMi+AycLR9kBfsfqeStLcH0Qz//aAxMNi7VUAc0A0="
COSIGNED_LINE = (
    "lpmAzwAAAABlU/EAbh2eBWtg4pcd80v3EIZUC/XJvGtguuo3gLs4LFFwbKwsIF1CILLOeHGCMUWSbz4PzsoLnKmUjjxTfPrvxbvHCQ=="
)
EMPTY_LINE = "bTdpfFvleusYU+0viN0ZbiEyFUC/I3GW8q8RllLmvSg0UATn7F1Lev5zgCoJ1r+t7WJJCl43N2FL4NRe12feMo4Niww="

TEXT = "one\ntwo\n"
GOOD = str(sign_note(TEXT, [read_signer(NEUMANN_PRIVATE)]))
LINE = GOOD.removeprefix(TEXT + "\n")
DATA = LINE.split(" ")[2].strip()


def opened(note: str | bytes, *keys: str) -> str:
    data = note if isinstance(note, bytes) else note.encode()
    return open_note(parse_note(data), [read_verifier(key) for key in keys or (NEUMANN,)]).text


def line_with(payload: bytes, name: str = "PeterNeumann") -> str:
    return f"— {name} {base64.b64encode(payload).decode()}\n"


UNKNOWN = line_with(b"abcd" + bytes(64), "somebody")
PAYLOAD = base64.b64decode(DATA)
FLIPPED = line_with(PAYLOAD[:-1] + bytes([PAYLOAD[-1] ^ 1]))


def test_known_notes_open() -> None:
    text = "This is an example message.\n"
    assert opened(f"{text}\n— example.com/foo {FOO_SIGNATURE}\n", FOO) == text
    for size, root, line in (
        (
            1,
            "0Nc2CrefWKseHj/mStd+LqC8B+NrX0btIiPt2SmN+ek=",
            "M9e0lhr9kuLxGdAtaUrhm84TQffVsLdcy808sN0a3WyniNlfcr9+bywoiIke1YYciCNjJGkCgIlQ8b16jhsmg/SChAM=",
        ),
        (
            15,
            "rKbDipCvhuX1GZ7g5BBe8sA6BbJ7ja/1nk427v383cs=",
            "M9e0luh4jTG+UMBqOUo9/q+yAEvx1ilBEniMvjf1zfcBOhg+CKubMt53MvIt/uEWP6zdkdIQzd/fmwlM/dlPWF74ewI=",
        ),
    ):
        name = "example.com/log/testdata"
        note = f"{name}\n{size}\n{root}\n\n— {name} {line}\n"
        checkpoint, _ = read_log_checkpoint(note.encode(), read_verifier(TESSERA))
        assert (checkpoint.size, str(checkpoint)) == (size, note.partition("\n\n")[0] + "\n")


def test_our_own_notes_are_the_known_ones_to_the_byte() -> None:
    assert (str(LOG.verifier), str(WITNESS.verifier)) == (LOG_VKEY, WITNESS_VKEY)
    assert str(sign_note(str(EIGHT), [LOG])) == f"{EIGHT}\n— {EIGHT.origin} {LOG_LINE}\n"
    empty = Checkpoint(EIGHT.origin, 0, EMPTY_ROOT)
    assert str(sign_note(str(empty), [LOG])) == f"{empty}\n— {EIGHT.origin} {EMPTY_LINE}\n"
    cosignature = cosign(WITNESS, str(EIGHT), 1_700_000_000)
    assert str(cosignature) == f"— witness.example.com/w1 {COSIGNED_LINE}"
    assert check_cosignature(WITNESS.verifier, str(EIGHT), cosignature).time == 1_700_000_000
    message = subtree_message(WITNESS.verifier.name, EIGHT, 1_700_000_000)
    assert message.hex() == (
        "737562747265652f76310a00167769746e6573732e6578616d706c652e636f6d2f7731000000006553f1001d6c6f672e6578616d"
        "706c652e636f6d2f636f6e74726f6c2d706c616e65000000000000000000000000000000085dc9da79a70659a9ad559cb701ded9a2"
        "ab9d823aad2f4960cfe370eff4604328"
    )


ACCEPTED = {
    "good": GOOD,
    "an unknown signer first": TEXT + "\n" + UNKNOWN + LINE,
    "the same name with another id": TEXT + "\n" + line_with(b"abcd" + bytes(64)) + LINE,
    "99 others": TEXT + "\n" + UNKNOWN * 99 + LINE,
    "DEL, NEL and LINE SEPARATOR in the text": str(
        sign_note("a\x7f\u0085\u2028b\n", [read_signer(NEUMANN_PRIVATE)])
    ),
    "empty lines in the text": str(sign_note("a\n\n\nb\n", [read_signer(NEUMANN_PRIVATE)])),
}
REFUSED = {
    "no signature": TEXT + "\n",
    "text only": TEXT,
    "empty": "",
    "no last line end": GOOD[:-1],
    "an empty line more": GOOD + "\n",
    "a trailing space": GOOD[:-1] + " \n",
    "two spaces before the signature": GOOD.replace("Neumann ", "Neumann  "),
    "two spaces after the dash": GOOD.replace("— ", "—  "),
    "a tab": GOOD.replace("Neumann ", "Neumann\t"),
    "a leading space": TEXT + "\n " + LINE,
    "a hyphen": GOOD.replace("—", "-"),
    "an en dash": GOOD.replace("—", "\u2013"),
    "CRLF": GOOD.replace("\n", "\r\n"),
    "CR in the signature line": GOOD[:-1] + "\r\n",
    "no padding": GOOD.replace("=", ""),
    "padding doubled": GOOD[:-1] + "==\n",
    "base64url": GOOD.replace(DATA, DATA.translate(str.maketrans("+/", "-_")) + "-_=="),
    "junk in the base64": GOOD.replace(DATA, DATA[:8] + "!" + DATA[8:]),
    "a line end in the base64": GOOD.replace(DATA, DATA[:8] + "\n" + DATA[8:]),
    "non-canonical base64": GOOD.replace(DATA, DATA[:-2] + chr(ord(DATA[-2]) + 1) + "="),
    "a payload of 3 bytes": TEXT + "\n" + line_with(b"abc") + LINE,
    "a payload of 4 bytes": TEXT + "\n" + line_with(b"abcd") + LINE,
    "a name with a plus": TEXT + "\n" + line_with(b"abcdefgh", "a+b") + LINE,
    "a name with a no-break space": TEXT + "\n" + line_with(b"abcdefgh", "a\u00a0b") + LINE,
    "an empty name": TEXT + "\n" + line_with(b"abcdefgh", "") + LINE,
    "0x01 in the text": GOOD.replace("one", "o\x01e"),
    "NUL in the text": GOOD.replace("one", "o\x00e"),
    "TAB in the text": GOOD.replace("one", "o\te"),
    "100 others": TEXT + "\n" + UNKNOWN * 100 + LINE,
    "a text that is too long": str(Note("a" * 70_000 + "\n", parse_note(GOOD.encode()).signatures)),
}
UNSIGNED = {
    "a payload of 69 bytes": TEXT + "\n" + line_with(PAYLOAD + b"x"),
    "a known key's bad signature": TEXT + "\n" + FLIPPED,
    "bad, then good": TEXT + "\n" + FLIPPED + LINE,
    "good, then bad": TEXT + "\n" + LINE + FLIPPED,
    "good twice": TEXT + "\n" + LINE + LINE,
    "only unknown": TEXT + "\n" + UNKNOWN,
    "another text": GOOD.replace("one", "One"),
    "a byte order mark": "\ufeff" + GOOD,
    "an empty line more before": GOOD.replace("\n\n", "\n\n\n"),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_what_a_note_may_hold(case: str) -> None:
    opened(ACCEPTED[case])
    assert str(parse_note(ACCEPTED[case].encode())) == ACCEPTED[case]


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_note(case: str) -> None:
    with pytest.raises(MalformedError):
        parse_note(REFUSED[case].encode())


@pytest.mark.parametrize("data", [GOOD.encode() + b"\xff\n", GOOD.encode().replace(b"one", b"\xed\xa0\x80")])
def test_a_note_is_utf8(data: bytes) -> None:
    with pytest.raises(MalformedError, match="UTF-8"):
        parse_note(data)


@pytest.mark.parametrize("case", UNSIGNED)
def test_what_nobody_known_signed(case: str) -> None:
    with pytest.raises(SignatureError):
        opened(UNSIGNED[case])


def test_a_signer_is_found_by_name_and_id_and_not_by_its_place() -> None:
    note = parse_note(GOOD.encode())
    other = read_verifier(ENOCH)
    with pytest.raises(SignatureError, match="no key that is known"):
        open_note(note, [other])
    ours = Signature("EnochRoot", note.signatures[0].key_id, note.signatures[0].data)
    with pytest.raises(SignatureError, match="no key that is known"):
        open_note(Note(note.text, (ours,)), [other, read_verifier(NEUMANN)])


@pytest.mark.parametrize("vkey", [NEUMANN, ENOCH, FOO, TESSERA, LOG_VKEY, WITNESS_VKEY])
def test_every_part_of_a_key_and_every_changed_one_is_refused(vkey: str) -> None:
    assert str(read_verifier(vkey)) == vkey
    wrong = [vkey[:end] for end in range(len(vkey))] + [vkey[start:] for start in range(1, len(vkey))]
    wrong += [vkey[:at] + chr(ord(vkey[at]) + 1) + vkey[at + 1 :] for at in range(len(vkey))]
    for text in wrong:
        with pytest.raises(MalformedError):
            read_verifier(text)


@pytest.mark.parametrize(
    "vkey",
    [
        "PeterNeumann+cc469956+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TWBADKEY==",
        "PeterNeumann+173116ae+ZRpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        NEUMANN.replace("c74f20a3", "C74F20A3"),
        NEUMANN + "\n",
        "Peter Neumann" + NEUMANN[12:],
        NEUMANN[12:],
    ],
)
def test_bad_keys(vkey: str) -> None:
    with pytest.raises(MalformedError):
        read_verifier(vkey)


def test_a_weak_key_is_refused() -> None:
    for public in (bytes(32), b"\x01" + bytes(31), bytes.fromhex("ec" + "ff" * 30 + "7f")):
        with pytest.raises(MalformedError, match="weak"):
            read_verifier(str(Verifier("weak", ED25519, public)))


def test_private_keys() -> None:
    assert str(read_signer(NEUMANN_PRIVATE).verifier) == NEUMANN
    text = private_text("log.example.com/control-plane", bytes(range(32)))
    assert (
        text
        == "PRIVATE+KEY+log.example.com/control-plane+6d37697c+AQABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
    )
    assert "AQABAg" not in repr(read_signer(text))
    for wrong in (
        NEUMANN,
        NEUMANN_PRIVATE[:-4],
        NEUMANN_PRIVATE.replace("c7", "c8"),
        "PRIVATE+KEY+a b+00000000+AAAA",
    ):
        with pytest.raises(MalformedError):
            read_signer(wrong)


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\u00a0b", "a\u2028b", "a\nb", "a\x00", "é" * 128])
def test_names_that_no_key_may_have(name: str) -> None:
    with pytest.raises(MalformedError):
        signer(name, bytes(32))


ROOT_TEXT = base64.b64encode(ROOT_8).decode()
NOT_CHECKPOINTS = {
    "two lines": "a\n8\n",
    "no line end": f"a\n8\n{ROOT_TEXT}",
    "an empty origin": f"\n8\n{ROOT_TEXT}\n",
    "an empty extension": f"a\n8\n{ROOT_TEXT}\n\n",
    "an empty line between": f"a\n8\n{ROOT_TEXT}\n\nx\n",
    "a leading zero": f"a\n08\n{ROOT_TEXT}\n",
    "a plus": f"a\n+8\n{ROOT_TEXT}\n",
    "a space": f"a\n 8\n{ROOT_TEXT}\n",
    "an underscore": f"a\n1_0\n{ROOT_TEXT}\n",
    "Arabic digits": f"a\n٨\n{ROOT_TEXT}\n",
    "negative": f"a\n-8\n{ROOT_TEXT}\n",
    "beyond 63 bits": f"a\n{2**63}\n{ROOT_TEXT}\n",
    "a short root": "a\n8\nAAAA\n",
    "a root in hex": f"a\n8\n{ROOT_8.hex()}\n",
    "size 0 with a root": f"a\n0\n{ROOT_TEXT}\n",
    "a root with other trailing bits": f"a\n8\n{ROOT_TEXT[:-2]}h=\n",
}


@pytest.mark.parametrize("case", NOT_CHECKPOINTS)
def test_what_is_no_checkpoint(case: str) -> None:
    with pytest.raises(MalformedError):
        parse_checkpoint(NOT_CHECKPOINTS[case])


def test_checkpoints_with_extensions_and_odd_origins_are_read() -> None:
    text = f"rekor.sigstore.dev - 3904\n{2**63 - 1}\n{ROOT_TEXT}\nTimestamp: 1\n"
    assert str(parse_checkpoint(text)) == text
    with pytest.raises(MalformedError, match="extension"):
        subtree_message("w", parse_checkpoint(text), 1)


def test_a_checkpoint_of_another_log_is_refused_though_our_key_signed_it() -> None:
    stranger = str(sign_note(f"elsewhere\n8\n{ROOT_TEXT}\n", [LOG]))
    with pytest.raises(MalformedError, match="and not of"):
        read_log_checkpoint(stranger.encode(), LOG.verifier)


def test_a_cosignature_without_time_or_bytes_or_of_another_text_is_refused() -> None:
    good = cosign(WITNESS, str(EIGHT), 1_700_000_000)
    wrong = [
        Signature(good.name, good.key_id, good.data[:8]),
        Signature(good.name, good.key_id, bytes(8) + good.data[8:]),
        Signature(good.name, good.key_id, b"\xff" * 8 + good.data[8:]),
        Signature(good.name, good.key_id, good.data[:-1]),
    ]
    for each in wrong:
        with pytest.raises(SignatureError):
            check_cosignature(WITNESS.verifier, str(EIGHT), each)
    with pytest.raises(SignatureError):
        check_cosignature(WITNESS.verifier, str(EIGHT).replace("\n8\n", "\n9\n"), good)


def test_an_mldsa_witness_is_verified() -> None:
    private = MLDSA44PrivateKey.from_seed_bytes(bytes(range(32)))
    key = Verifier(WITNESS.verifier.name, MLDSA_COSIGNATURE, private.public_key().public_bytes_raw())
    assert key.id.hex() == "db8c366f"
    assert read_verifier(str(key)) == key
    time = 1_700_000_000
    data = time.to_bytes(8, "big") + private.sign(subtree_message(key.name, EIGHT, time))
    note = sign_note(str(EIGHT), [LOG])
    cosigned = parse_note(
        str(Note(note.text, (*note.signatures, Signature(key.name, key.id, data)))).encode()
    )
    assert len(open_note(cosigned, [LOG.verifier, key]).verified) == 2
    forged = Signature(key.name, key.id, data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(SignatureError):
        open_note(Note(note.text, (*note.signatures, forged)), [LOG.verifier, key])


def test_errors_of_the_log_are_the_operators_to_read() -> None:
    assert issubclass(MalformedError, TlogError)
    assert issubclass(SignatureError, TlogError)
    with pytest.raises(MalformedError, match="cosigns"):
        sign_note(TEXT, [WITNESS])
    with pytest.raises(MalformedError, match="line feed"):
        sign_note("x", [LOG])
