"""Snakemake finds the console of phrasemt by the name of this package: `logger: phrasemt` in a profile."""

from phrasemt.runs.console import LogHandler

__all__ = ["LogHandler"]
