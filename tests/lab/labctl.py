"""The lab's program, run as a person would run it."""

import subprocess
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[2] / "molecule" / "labctl"
SWITCH = "10.78.0.1/24"


class Labctl:
    """labctl, for one lab."""

    def __init__(self, lab: str) -> None:
        self.lab = lab

    def argv(self, verb: str, *words: str) -> list[str]:
        """Return the argv of a verb."""
        return [str(PROGRAM), verb, self.lab, *words]

    def attempt(self, verb: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a verb, whatever its exit status."""
        return subprocess.run(
            self.argv(verb, *words), check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )

    def __call__(self, verb: str, *words: str) -> str:
        """Run a verb that must succeed, and return its output."""
        done = self.attempt(verb, *words)
        assert done.returncode == 0, f"{verb} {words}: {done.stderr}{done.stdout}"
        return done.stdout.strip()

    def inside(self, host: str, *command: str) -> str:
        """Run a command in a host that must succeed, and return its output."""
        return self("exec", host, "--", *command)

    def answers_ssh(self, address: str) -> bool:
        """Say whether an ssh server at an address on the lab's network gives its key within a second."""
        return (
            "ssh-ed25519"
            in self.attempt("net", "--", "ssh-keyscan", "-T", "1", "-t", "ed25519", address).stdout
        )
