"""The build that the scenarios try on hosts is the program with a few lines more, and a program itself."""

import ast
import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


def test_the_lines_that_a_trial_build_adds_stand_where_they_can() -> None:
    tasks = yaml.safe_load((ROOT / "molecule/upgrade/tasks/build.yml").read_text(encoding="utf-8"))
    (added,) = [task for task in tasks if "ansible.builtin.lineinfile" in task]
    texts: dict[str, list[str]] = {}
    for item in added["loop"]:
        path = ROOT / "app/rota" / item["path"]
        lines = texts.setdefault(item["path"], path.read_text(encoding="utf-8").splitlines())
        if item["after"] == "EOF":
            lines.append(item["line"])
            continue
        found = [n for n, line in enumerate(lines) if re.search(item["after"], line)]
        assert found, f"nothing in {item['path']} is like {item['after']}"
        lines.insert(found[-1] + 1, item["line"])
    for path, lines in texts.items():
        ast.parse("\n".join(lines), filename=path)
