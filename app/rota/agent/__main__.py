"""`python -m rota.agent`."""

import sys

# The agent speaks plain HTTP, inside the tunnel; without TLS it takes a tenth less memory.
sys.modules["ssl"] = None  # type: ignore[assignment]

from rota.agent.program import main  # noqa: E402

if __name__ == "__main__":
    main()
