"""`phrasemt plan STUDY --detect GAIN`: the trainings that a gain needs to be marked, what they cost, and what the study
as it stands would show.

The test is that of the table (phrasemt/scoring/significance.py), by the deviation between trainings alone: p < 0.05 in
80 % of all repetitions at the first step of Holm, with the deviation pooled over all systems of the study.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from phrasemt.artefacts.table import Table
from phrasemt.commands._prices import Prices
from phrasemt.errors import PhrasemtError
from phrasemt.runs.display import table
from phrasemt.scoring.significance import detectable

PUBLISHED = 0.48  # BLEU, of trainings on Multi30k (docs/findings.md)
_MOST_SEEDS = 1_000
_KEY = "bleu_tok_difference"


def describe_power(prices: Prices, gain: float, deviation: float | None) -> Iterator[str]:
    """Yield the lines. gain: in BLEU. deviation: between trainings; None: that of finished trainings, or `PUBLISHED`.

    Raises PhrasemtError for a study in which no system is compared with another one in BLEU.
    """
    study = prices.study
    seeds = {name: 0 if name in study.unseeded else len(study.seeds_of(name)) for name in study.translating}
    compared = {name: baseline for name, baseline in study.baselines.items() if name in seeds}
    tested = len(compared)
    if not compared:
        raise PhrasemtError(
            "nothing to detect",
            where=study.study,
            expected="two systems that translate",
            found=", ".join(study.systems),
        )
    found, basis = (deviation, "--deviation") if deviation else known_deviation(study.study)
    drawn = sum(number > 0 for number in seeds.values())

    def shown(*trainings: int, freedom: int) -> float:
        return detectable(found * math.sqrt(sum(1 / one for one in trainings if one)), freedom, tested)

    needed = next(
        (one for one in range(2, _MOST_SEEDS + 1) if shown(one, one, freedom=drawn * (one - 1)) <= gain), None
    )
    freedom = sum(number - 1 for number in seeds.values() if number)
    corrected = f", corrected for {tested} systems (Holm)" if tested > 1 else ""
    yield (
        f"{study.study}: BLEU that is marked in 80 of 100 repetitions (p < 0.05{corrected}), if trainings differ by "
        f"{found:.2f} BLEU ({basis}); the choice of test sentences is not counted"
    )
    unit = "GPU h" if prices.rate.on_gpu else "core h"
    heading = ("system", "trainings", "marked", unit, f"for {gain:g}", unit)
    rows: list[tuple[str, ...]] = [heading]
    total = [0.0, 0.0]  # hours now, and for the gain
    for name, number in seeds.items():
        marked = ""
        if name in compared:
            marked = f"{shown(number, seeds[compared[name]], freedom=freedom):.2f}" if freedom else "not tested"
        hours = prices.hours_of_training(name) if name in study.models else 0.0
        now, then = (number, needed) if number else (1, 1)
        total = [total[0] + hours * now, total[1] + hours * (then or 0)]
        after = ("too many", "") if then is None else (f"{then:,}", f"{hours * then:,.2f}")
        rows.append((name, f"{now:,}", marked, f"{hours * now:,.2f}", *after))
    rows.append(("all", "", "", f"{total[0]:,.2f}", "", f"{total[1]:,.2f}" if needed else ""))
    yield from (f"  {line}" for line in table(rows, right_aligned=heading[1:]))
    if not freedom:
        yield "as it stands: no system is trained several times, so no difference is tested"
    if needed is None:
        yield f"a gain of {gain:g} needs more than {_MOST_SEEDS:,} trainings of each system"
    yield from prices.basis()


def known_deviation(study: str) -> tuple[float, str]:
    """The deviation of BLEU between trainings, and whose it is.

    That of the study, or else that of all studies below results/, pooled, or else `PUBLISHED`.
    """
    variances: dict[str, tuple[float, int]] = {}  # and degrees of freedom
    for path in sorted(Path().glob(Table.pattern.glob)):
        try:
            read = Table.read(path)
        except PhrasemtError:
            continue  # of another version
        powers = [
            next((cell.power for row in block.rows if (cell := row.cells.get(_KEY)) and cell.power), None)
            for block in read.blocks
        ]
        if known := [power for power in powers if power is not None and power.deviation]:
            variances[read.study] = sum(power.deviation**2 for power in known) / len(known), known[0].freedom
    chosen = {study: variances[study]} if study in variances else variances
    if not chosen:
        return PUBLISHED, "published: Multi30k"
    freedom = sum(degrees for _, degrees in chosen.values())
    pooled = sum(variance * degrees for variance, degrees in chosen.values()) / freedom
    return math.sqrt(pooled), f"of {', '.join(chosen)}, {freedom} degrees of freedom"
