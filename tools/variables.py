"""Writes docs/reference/variables.md from the Ansible roles' argument_specs; `--check` only compares."""

import re
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "variables.md"
ROLES = sorted(path.name for path in (ROOT / "roles").iterdir())
HEAD = """\
# Variables of the kit

Made from the Ansible roles' `meta/argument_specs.yml` by `tools/variables.py`; change it there.

Set them in the inventory, as `inventories/single/group_vars/all.yml` shows. A name that no Ansible role knows
is refused before anything changes, and so is a value of the wrong type. What is "set by the playbook" follows
from the inventory's groups and from other variables.
"""


def main(arguments: list[str]) -> int:
    """Write the page, or say whether it is current."""
    text = page()
    if "--check" in arguments:
        current = PAGE.exists() and PAGE.read_text() == text
        if not current:
            print(f"{PAGE.relative_to(ROOT)} is not current: run python tools/variables.py")
        return 0 if current else 1
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(text)
    return 0


def page() -> str:
    """Give the page's text."""
    return HEAD + "".join(section(role) for role in ROLES)


def section(role: str) -> str:
    """Give one Ansible role's heading, description and table."""
    spec = yaml.safe_load((ROOT / "roles" / role / "meta" / "argument_specs.yml").read_text())
    main_entry = spec["argument_specs"]["main"]
    rows = "".join(row(name, option) for name, option in main_entry["options"].items())
    text = " ".join(marked(line) for line in main_entry["description"])
    return f"\n## {role}\n\n{text}\n\n| variable | type | default | |\n|---|---|---|---|\n{rows}"


def row(name: str, option: dict[str, Any]) -> str:
    """Give one line of the table."""
    kind = f"list of {option['elements']}" if option["type"] == "list" else option["type"]
    if "choices" in option:
        kind = " or ".join(shown(choice) for choice in option["choices"])
        kind = f"list of {kind}" if option["type"] == "list" else kind
    described = option["description"]
    text = " ".join(marked(line) for line in ([described] if isinstance(described, str) else described))
    default = shown(option["default"]) if "default" in option else "see right"
    return f"| `{name}` | {kind} | {default} | {text} |\n"


def shown(value: object) -> str:
    """Give a value as YAML would have it."""
    text = yaml.safe_dump(value, default_flow_style=True).strip().removesuffix("\n...").strip()
    return "empty" if value == "" else f"`{text}`"


def marked(text: str) -> str:
    """Turn Ansible's markup into Markdown's."""
    return re.sub(r"[COV]\(([^)]*)\)", r"`\1`", text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
