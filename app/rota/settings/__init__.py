"""The hub's settings: read once, checked whole, and frozen."""

from rota.settings.load import Loaded, load
from rota.settings.model import Settings

__all__ = ["Loaded", "Settings", "load"]
