"""Rota: run real applications on one to fifty Linux servers."""

__version__ = "0.1.0"
