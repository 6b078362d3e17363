"""The house rules that a machine can check."""

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = sorted((ROOT / "app" / "rota").rglob("*.py"))
EVERYTHING = sorted(
    path
    for folder in ("app", "molecule", "plugins", "tests", "tools")
    for path in (ROOT / folder).rglob("*.py")
    if ".cache" not in path.parts
)

SOFT, HARD, FUNCTION = 400, 600, 60
# Modules of the program beyond SOFT lines, each with its reason.
LONG: dict[str, str] = {}

# What a module may import, from the bottom up: only what stands in a lower
# line, or belongs to its own entry. The longest entry that fits decides.
LAYERS: list[set[str]] = [
    {"rota", "rota.errors", "rota.secret", "rota.roles", "rota.logging", "rota.rootd", "rota.failpoints"},
    {"rota.agent.launch"},
    {"rota.coordination.epoch", "rota.coordination.keys", "rota.coordination.tenure", "rota.tlog"},
    {"rota.access", "rota.live", "rota.rooms", "rota.archive", "rota.wire"},
    {"rota.placement"},
    {"rota.settings", "rota.store", "rota.drivers", "rota.coordination.locks", "rota.health"},
    {"rota.coordination"},
    {"rota.acts"},
    {"rota.mail"},
    {"rota.hooks", "rota.backups", "rota.artifacts", "rota.configuration", "rota.servers", "rota.logs"},
    {"rota.releases"},
    {"rota.builds", "rota.link", "rota.routing"},
    {"rota.deploys", "rota.agent"},
    {"rota.tasks", "rota.hub"},
    {"rota.wiring"},
    {"rota.web"},
    {"rota.serve"},
    {"rota.cli"},
    {"rota.__main__"},
]
MAY_WIRE = ("rota.cli", "rota.serve", "rota.web.server")
# The outermost loops, which log what they did not expect and go on or end the process.
MAY_CATCH_ALL = {
    ("rota.hub", "_live"),
    ("rota.coordination.leader", "_live"),
    ("rota.coordination.leader", "_contend"),
    ("rota.coordination.bus.notify", "_listen"),
    ("rota.coordination.bus.notify", "_send"),
    ("rota.coordination.queue.worker", "_attempt"),
    ("rota.coordination.residents", "_live"),
}
SHELLS = {"system", "popen", "getoutput", "getstatusoutput", "create_subprocess_shell"}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def module(path: Path) -> str:
    parts = path.relative_to(ROOT / "app").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module(path): path for path in PROGRAM}


def imports(path: Path) -> Iterator[str]:
    """Yield the modules of the program that a module imports, those in its functions too."""
    for item in ast.walk(tree(path)):
        if isinstance(item, ast.Import):
            yield from (alias.name for alias in item.names if alias.name.split(".")[0] == "rota")
        elif isinstance(item, ast.ImportFrom) and (item.module or "").split(".")[0] == "rota":
            assert item.module is not None
            for alias in item.names:
                name = f"{item.module}.{alias.name}"
                yield name if name in MODULES else item.module
        elif isinstance(item, ast.ImportFrom):
            assert item.level == 0, f"{path}: imports are absolute"


def entry(name: str) -> tuple[int, str]:
    """Return (layer, entry) of a module."""
    fits = [
        (len(known), level, known)
        for level, layer in enumerate(LAYERS)
        for known in layer
        if name == known or (known != "rota" and name.startswith(known + "."))
    ]
    assert fits, f"{name} has no place among the layers"
    _, level, known = max(fits)
    return level, known


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for item in ast.walk(tree(path)):
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
            yield item


def short(path: Path) -> str:
    return str(path.relative_to(ROOT))


def offences(check: Callable[[Path], Iterator[str]], paths: list[Path]) -> list[str]:
    return [f"{short(path)}: {offence}" for path in paths for offence in check(path)]


def test_a_module_is_one_noun_and_short() -> None:
    lengths = {short(path): len(path.read_text(encoding="utf-8").splitlines()) for path in EVERYTHING}
    assert {path: length for path, length in lengths.items() if length > HARD} == {}
    program = {short(path) for path in PROGRAM}
    long = {path for path, length in lengths.items() if path in program and length > SOFT}
    assert long == set(LONG), "LONG lists exactly the modules beyond the soft bound"


def test_a_function_fits_a_screen() -> None:
    def too_long(path: Path) -> Iterator[str]:
        for function in functions(path):
            length = (function.end_lineno or 0) - function.lineno + 1
            if length > FUNCTION:
                yield f"{function.name} has {length} lines"

    assert offences(too_long, EVERYTHING) == []


@pytest.mark.parametrize("name", MODULES)
def test_dependencies_point_down(name: str) -> None:
    level, own = entry(name)
    for imported in imports(MODULES[name]):
        other_level, other = entry(imported)
        assert other == own or other_level < level, (
            f"{name} imports {imported}, which stands above or beside it"
        )


def test_imports_go_in_no_circle() -> None:
    graph = {name: set(imports(path)) - {name, "rota"} for name, path in MODULES.items()}
    while leaves := [name for name, needed in graph.items() if not needed & graph.keys()]:
        for leaf in leaves:
            del graph[leaf]
    assert graph == {}


def test_only_the_entry_points_know_the_wiring() -> None:
    for name, path in MODULES.items():
        if "rota.wiring" in imports(path):
            assert name.startswith(MAY_WIRE), f"{name} imports the wiring"


def test_nothing_starts_a_task_but_the_wiring_from_the_one_table() -> None:
    def starts(path: Path) -> Iterator[str]:
        for item in ast.walk(tree(path)):
            if isinstance(item, ast.Call) and ast.unparse(item.func) in {"leader.run", "self.leader.run"}:
                yield f"line {item.lineno}: {ast.unparse(item)}"

    others = [path for path in PROGRAM if module(path) != "rota.wiring"]
    assert offences(starts, others) == []
    assert len(offences(starts, [MODULES["rota.wiring"]])) == 1


def test_the_layers_name_only_what_exists() -> None:
    assert {known for layer in LAYERS for known in layer} <= MODULES.keys()


def test_no_shell_anywhere() -> None:
    def shells(path: Path) -> Iterator[str]:
        for item in ast.walk(tree(path)):
            if isinstance(item, ast.keyword) and item.arg == "shell":
                yield f"line {item.value.lineno}: shell="
            if isinstance(item, ast.Attribute) and item.attr in SHELLS:
                owner = item.value
                if isinstance(owner, ast.Name) and owner.id in {"os", "subprocess", "asyncio"}:
                    yield f"line {item.lineno}: {owner.id}.{item.attr}"
            if isinstance(item, ast.ImportFrom) and item.module in {"os", "subprocess", "asyncio"}:
                yield from (f"imports {alias.name}" for alias in item.names if alias.name in SHELLS)

    assert offences(shells, EVERYTHING) == []


def test_only_the_outermost_loops_catch_everything() -> None:
    def broad(path: Path) -> Iterator[str]:
        for function in functions(path):
            for item in ast.walk(function):
                caught = isinstance(item, ast.ExceptHandler) and catches_all(item) and not raises_again(item)
                if caught and (module(path), function.name) not in MAY_CATCH_ALL:
                    yield f"{function.name} catches everything"
                if isinstance(item, ast.Call) and suppresses_all(item):
                    yield f"{function.name} suppresses everything"

    assert offences(broad, PROGRAM) == []


def catches_all(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    return any(
        isinstance(item, ast.Name) and item.id in {"Exception", "BaseException"}
        for item in ast.walk(handler.type)
    )


def raises_again(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def suppresses_all(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name == "suppress" and any(
        isinstance(item, ast.Name) and item.id in {"Exception", "BaseException"} for item in call.args
    )


def test_every_module_says_what_it_is() -> None:
    assert [short(path) for path in EVERYTHING if not ast.get_docstring(tree(path))] == []


def test_no_test_is_skipped_or_expected_to_fail() -> None:
    def excused(path: Path) -> Iterator[str]:
        for item in ast.walk(tree(path)):
            if isinstance(item, ast.Attribute) and item.attr in {"skip", "skipif", "xfail", "importorskip"}:
                yield f"line {item.lineno}: {item.attr}"

    assert offences(excused, [path for path in EVERYTHING if "tests" in path.parts]) == []


def test_tests_wait_for_conditions_and_not_for_time() -> None:
    """A sleep stands in a loop that looks again, or gives way to the event loop for zero seconds."""

    def bare(path: Path) -> Iterator[str]:
        looped = {
            sleep
            for loop in ast.walk(tree(path))
            if isinstance(loop, ast.While | ast.For | ast.AsyncFor)
            for sleep in sleeps(loop)
        }
        for sleep in sleeps(tree(path)):
            if sleep not in looped and ast.unparse(sleep.args[0]) != "0":
                yield f"line {sleep.lineno}: {ast.unparse(sleep)}"

    assert offences(bare, [path for path in EVERYTHING if "tests" in path.parts]) == []


def sleeps(root: ast.AST) -> Iterator[ast.Call]:
    for item in ast.walk(root):
        if isinstance(item, ast.Call) and isinstance(item.func, ast.Attribute) and item.func.attr == "sleep":
            yield item
