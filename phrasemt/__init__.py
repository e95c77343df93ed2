"""Phrases in neural machine translation: three papers, reproduced."""

__version__ = "0.2.0"
