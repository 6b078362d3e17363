"""Procfile and rota.toml, and what is decided from them. Every error names its line or its key."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.builds import manifest, procfile, recipe
from rota.builds.detection import plan
from rota.errors import InputError
from rota.wire.statements import Health, Limits, Requires

KIND = "[build]\nkind = 'nodejs'"
EXAMPLES = Path(__file__).parents[2] / "examples"


class TestProcfile:
    def test_a_good_one(self) -> None:
        text = b"# what runs\n\nweb: gunicorn shop:app -b $HOST:$PORT\r\nworker :  python3 -m shop.work \n"
        assert procfile.parse(text) == {
            "web": "gunicorn shop:app -b $HOST:$PORT",
            "worker": "python3 -m shop.work",
        }

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (b"web: a\nnonsense\n", "line 2: it is not NAME: COMMAND"),
            (b"Web: a\n", "line 1: 'Web' names no process type"),
            (b"web: a\nweb: b\n", "line 2: web stands in line 1 already"),
            (b"web:\n", "line 1: the command is empty"),
            (b"web: a | b\n", "line 1: | needs a shell"),
            (b"web: echo $(id)\n", "line 1: $( needs a shell"),
            (b"web: 'a\n", "line 1: a quote"),
            (b"web: a\x00b\n", "line 1: a command holds no control characters"),
            (b"web: a\nx: \xff\n", "line 2: it is not UTF-8"),
            (b"# nothing\n", "it names no process type"),
            (b"a" * 70_000, "70000 bytes"),
            (b"".join(b"t%d: a\n" % n for n in range(51)), "51 process types"),
            (b"web: " + b"a" * 5000, "4000 signs"),
        ],
    )
    def test_a_bad_one_is_refused_as_a_whole(self, text: bytes, expected: str) -> None:
        with pytest.raises(InputError, match="Procfile") as refused:
            procfile.parse(text)
        assert expected in str(refused.value)

    def test_all_that_is_wrong_is_told_at_once(self) -> None:
        with pytest.raises(InputError) as refused:
            procfile.parse(b"X: a\nok: b\nbad\n")
        assert [line.split(":")[0] for line in str(refused.value).splitlines()] == [
            "Procfile line 1",
            "Procfile line 3",
        ]

    @given(st.binary(max_size=200))
    @settings(max_examples=300, deadline=None)
    def test_any_bytes_are_read_or_refused(self, data: bytes) -> None:
        try:
            found = procfile.parse(data)
        except InputError:
            return
        assert found
        assert procfile.parse("".join(f"{k}: {v}\n" for k, v in found.items()).encode()) == found


class TestRecipe:
    def test_a_good_one(self) -> None:
        said = recipe.parse(b"""
[build]
command = "make all"
[processes]
worker = "python3 work.py"
[processes.web]
memory = "512M"
processors = 0.5
grace = 30
[health]
path = "/up"
[hooks]
release = "python3 migrate.py"
[requires]
memory = "1G"
[env]
GREETING = "Hello"
TOKEN = { required = true, description = "of the shop" }
[addons.postgresql]
""")
        found = recipe.processes(said, {"web": "gunicorn x", "clock": "c"})
        assert list(found) == ["clock", "web", "worker"]
        assert found["web"].command == "gunicorn x"
        assert found["web"].limits == Limits(memory=512 << 20, processors=500)
        assert found["web"].health == Health(path="/up")
        assert found["worker"].health == Health(kind="process")
        assert recipe.requires(said) == Requires(memory=1 << 30, database=True)
        assert recipe.environment(said) == {"GREETING": "Hello"}
        assert recipe.required(said) == ["TOKEN"]

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("[schedule]\nnightly = 1", "[schedule] is not understood yet"),
            ("[build\n", "line 1"),
            ("[health]\npth = '/'", "pth"),
            ("[health]\npath = 'up'", "$.health.path"),
            ("[processes.web]\nmemory = 'lots'", "'lots' is no size"),
            ("[processes]\nweb = 'a | b'", "needs a shell"),
            ("[processes]\nWeb = 'a'", "$.processes"),
            ("[env]\n'A-B' = '1'", "can name no value"),
            ("[env]\nPORT = '1'", "PORT is said by the server"),
            ("[env]\nA = 1", "$.env"),
            ("[addons.oracle]", "[addons] oracle"),
            ("[build]\nkind = 'php'", "php"),
            ("x = 1", "x"),
        ],
    )
    def test_a_bad_one_is_refused_by_its_key(self, text: str, expected: str) -> None:
        with pytest.raises(InputError) as refused:
            recipe.processes(recipe.parse(text.encode()), {})
        assert expected in str(refused.value)

    @given(st.binary(max_size=100))
    @settings(max_examples=200, deadline=None)
    def test_any_bytes_are_read_or_refused(self, data: bytes) -> None:
        with contextlib.suppress(InputError):
            assert isinstance(recipe.parse(data), recipe.Recipe)


class TestPlan:
    @pytest.mark.parametrize(
        ("files", "kind"),
        [
            ({"requirements.txt": ""}, "python"),
            ({"pyproject.toml": ""}, "python"),
            ({"package.json": "{}"}, "nodejs"),
            ({"index.html": ""}, "static"),
            ({"public/index.html": ""}, "static"),
            ({"rota.toml": "[build]\ncommand = 'make'"}, "command"),
            (
                {"requirements.txt": "", "package.json": "{}", "rota.toml": "[build]\nkind = 'nodejs'"},
                "nodejs",
            ),
        ],
    )
    def test_what_lies_there_decides(self, tmp_path: Path, files: dict[str, str], kind: str) -> None:
        for name, text in {"Procfile": "web: x\nrelease: migrate", **files}.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        found = plan(tmp_path)
        assert found.kind == kind
        assert list(found.manifest.processes) == ["web"]
        assert found.manifest.hook == "migrate"
        assert manifest.read(manifest.written(found.manifest)) == found.manifest

    @pytest.mark.parametrize(
        ("files", "expected"),
        [
            ({}, "cannot be seen"),
            ({"requirements.txt": "", "package.json": "{}"}, "for Node.js"),
            ({"requirements.txt": ""}, "Nothing says what to run"),
            ({"package.json": "["}, "package.json cannot be read"),
            ({"package.json": '{"scripts":{"start":"a && b"}}'}, "script start"),
            ({"index.html": "", "rota.toml": "[build]\ndirectory = '../x'"}, "no path inside"),
        ],
    )
    def test_what_cannot_be_decided_says_why(
        self, tmp_path: Path, files: dict[str, str], expected: str
    ) -> None:
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        with pytest.raises(InputError) as refused:
            plan(tmp_path)
        assert expected in str(refused.value)

    def test_a_link_in_place_of_a_file_is_not_followed(self, tmp_path: Path) -> None:
        (tmp_path / "Procfile").symlink_to("/etc/passwd")
        with pytest.raises(InputError, match="no plain file"):
            plan(tmp_path)

    @pytest.mark.parametrize(
        ("name", "kind"), [("hello", "python"), ("node", "nodejs"), ("static", "static")]
    )
    def test_the_examples_are_what_they_say(self, name: str, kind: str) -> None:
        found = plan(EXAMPLES / name)
        assert found.kind == kind
        assert "web" in found.manifest.processes
