"""Run a module of the kit in this process, as Ansible would."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

Capture = pytest.CaptureFixture[str]


def run(main: Callable[[], None], capture: Capture, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the module's answer; `failed` is in it when it failed."""
    with patch_module_args(arguments), pytest.raises(SystemExit):
        main()
    answer: dict[str, Any] = json.loads(capture.readouterr().out)
    return answer
