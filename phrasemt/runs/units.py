"""How times and memory are shown to people."""

from __future__ import annotations


def clock(seconds: float) -> str:
    """Hours, minutes and seconds: 12:03:59."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"


def memory(mib: float) -> str:
    """Memory in the unit that people read: 812 MiB, 1.2 GiB."""
    return f"{mib:.0f} MiB" if mib < 1000 else f"{mib / 1024:.1f} GiB"
