"""One measured figure beside its promise."""

import operator
from dataclasses import dataclass

_HOLDS = {"≥": operator.ge, "≤": operator.le}


@dataclass(frozen=True)
class Line:
    """What was measured, how it compares, and what was promised."""

    what: str
    measured: float
    relation: str
    promised: float
    unit: str

    @property
    def kept(self) -> bool:
        """Tell whether the promise was kept."""
        return bool(_HOLDS[self.relation](self.measured, self.promised))

    def __str__(self) -> str:
        verdict = "kept" if self.kept else "BROKEN"
        figures = f"{self.measured:8.2f} {self.unit:<4} {self.relation} {self.promised:g}"
        return f"{self.what:<48} {figures:<26} {verdict}"
