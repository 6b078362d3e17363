"""Names, sizes and files of configuration. Pure."""

import pytest
from cryptography.exceptions import InvalidTag
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.configuration import names
from rota.configuration.formats import read_json, read_lines
from rota.configuration.vault import Answering, Sealer
from rota.errors import InputError

VALUES = st.binary(max_size=200).filter(lambda data: b"\0" not in data)


class TestNames:
    @pytest.mark.parametrize("name", ["A", "_", "a_1", "PATH", "A" * 255])
    def test_good_ones(self, name: str) -> None:
        assert names.checked_name(name) == name

    @pytest.mark.parametrize("name", ["", "1A", "A-B", "A B", "Ä", "A=", "A\n", "A" * 256, "PORT", "HOST"])
    def test_bad_ones(self, name: str) -> None:
        with pytest.raises(InputError):
            names.checked_name(name)

    def test_sizes(self) -> None:
        assert names.checked_value("A", b"\xff" * names.LONGEST)
        for wrong in (b"a\0b", b"x" * (names.LONGEST + 1)):
            with pytest.raises(InputError):
                names.checked_value("A", wrong)
        with pytest.raises(InputError, match="the most"):
            names.check_whole({f"N{n}": names.LONGEST for n in range(8)})


class TestLines:
    def test_every_form(self) -> None:
        data = b"""# a comment
A=1
export B = two words \r
C='single $x \\n
two' # rest
D="double \\"q\\" \\n \\$x
three"
E=
F=a=b#c
"""
        assert read_lines(data) == {
            "A": b"1",
            "B": b"two words",
            "C": b"single $x \\n\ntwo",
            "D": b'double "q" \n $x\nthree',
            "E": b"",
            "F": b"a=b#c",
        }

    @pytest.mark.parametrize(
        ("data", "expected"),
        [
            (b"A=1\nnonsense", "Line 2: it is not NAME=value"),
            (b"A='x", "Line 1: a quote does not end"),
            (b"A='x' y", "Line 1: something follows"),
            (b'A="\\q"', "Line 1: \\q is no escape"),
            (b"1A=x", "Line 1: '1A' can name no value"),
            (b"\xff=x", "Line 1: a name is of ASCII"),
            (b"A=x\n\nPORT=1", "Line 3: PORT is said"),
            (b"A=a\0b", "Line 1: The value of A holds a NUL"),
        ],
    )
    def test_any_error_names_its_line(self, data: bytes, expected: str) -> None:
        with pytest.raises(InputError) as refused:
            read_lines(data)
        assert expected in str(refused.value)

    @given(st.dictionaries(st.from_regex(r"\A[A-Z_]{1,9}\Z"), VALUES.filter(lambda data: b"'" not in data)))
    @settings(max_examples=100, deadline=None)
    def test_what_single_quotes_hold_comes_out(self, values: dict[str, bytes]) -> None:
        kept = {
            name: value
            for name, value in values.items()
            if name not in names.RESERVED and b"\r\n" not in value and not value.endswith(b"\r")
        }
        data = b"".join(name.encode() + b"='" + value + b"'\n" for name, value in kept.items())
        assert read_lines(data) == kept

    def test_space_at_the_end_of_a_quoted_line_is_the_values_own(self) -> None:
        assert read_lines(b"A='\t\nx \n'\nB=bare \t\n") == {"A": b"\t\nx \n", "B": b"bare"}

    def test_json(self) -> None:
        assert read_json(b'{"A": "\\u00e4"}') == {"A": b"\xc3\xa4"}
        for wrong in (b"[", b'{"A": 1}', b'{"PORT": "1"}'):
            with pytest.raises(InputError):
                read_json(wrong)


@given(VALUES, st.text(max_size=20))
@settings(max_examples=50, deadline=None)
def test_what_is_sealed_is_opened_by_its_key_and_place_alone(value: bytes, about: str) -> None:
    asking = Answering()
    sealed = Sealer(asking.public).seal(about, value)
    assert asking.open(about, sealed) == value
    for other, place in ((Answering(), about), (asking, about + "x")):
        with pytest.raises(InvalidTag):
            other.open(place, sealed)
