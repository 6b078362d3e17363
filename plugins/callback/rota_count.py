"""Count what each Ansible role executes on each host, and what it changes there."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: rota_count
type: aggregate
short_description: Count module executions by host and Ansible role
description:
  - At the end of a run prints, for each Ansible role, the most results that one host returned.
  - Counts results executed on the host itself; what only the controller computes, what is delegated
    and what is skipped stand apart.
  - With C(ROTA_COUNT_FILE) set, appends the whole count to that file as one line of JSON.
author: The Rota authors
"""

ON_CONTROLLER = frozenset(
    {
        "add_host",
        "assert",
        "debug",
        "fail",
        "group_by",
        "import_role",
        "import_tasks",
        "include_role",
        "include_tasks",
        "include_vars",
        "meta",
        "rota_check",
        "set_fact",
        "validate_argument_spec",
    }
)


class CallbackModule(CallbackBase):  # type: ignore[misc] # ansible ships no types
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "rota_count"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self.executed: Counter[tuple[str, str]] = Counter()
        self.playbook = ""
        self.check_mode = False

    def v2_playbook_on_start(self, playbook: Any) -> None:
        self.playbook = Path(playbook._file_name).name  # noqa: SLF001 - the attribute every callback reads

    def v2_playbook_on_play_start(self, play: Any) -> None:
        self.check_mode = bool(play.check_mode)

    def v2_runner_on_ok(self, result: Any) -> None:
        self._count(result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:  # noqa: FBT001, FBT002
        del ignore_errors
        self._count(result)

    def _count(self, result: Any) -> None:
        task = result._task  # noqa: SLF001 - the attribute every callback reads
        if task._role is None or task.delegate_to or task.action.split(".")[-1] in ON_CONTROLLER:  # noqa: SLF001
            return
        items = result._result.get("results", [None]) if task.loop is not None else [None]  # noqa: SLF001
        ran = sum(1 for item in items if not (item and item.get("skipped")))
        self.executed[result._host.get_name(), task._role.get_name()] += ran  # noqa: SLF001

    def v2_playbook_on_stats(self, stats: Any) -> None:
        roles = sorted({role for _, role in self.executed})
        most = {role: max(n for (_, r), n in self.executed.items() if r == role) for role in roles}
        if most:
            self._display.display("executions on one host: " + ", ".join(f"{r} {n}" for r, n in most.items()))
        target = os.environ.get("ROTA_COUNT_FILE")
        if target:
            hosts = {
                host: {
                    "executed": {role: n for (h, role), n in sorted(self.executed.items()) if h == host},
                    **stats.summarize(host),
                }
                for host in sorted(stats.processed)
            }
            line = {"playbook": self.playbook, "check": self.check_mode, "hosts": hosts}
            with Path(target).open("a") as stream:
                stream.write(json.dumps(line) + "\n")
