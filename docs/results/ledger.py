"""The ledger: each claim of the papers with a verdict, and with the figures of the published trainings that decide it.

docs/results/claims.yaml has the claims and the verdicts, which people write. All figures are computed here, and `borne`
is the verdict that they bear; a test compares it with the written one.
"""

from __future__ import annotations

import functools
import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import run_values
from run_values import DEV_NATS, comparison, parts, runs
from runs import FOLDER, TestSet

from phrasemt.artefacts.scores import MetricComparison
from phrasemt.artefacts.translations import ContrastAccuracy
from phrasemt.files.yaml import parse_yaml
from phrasemt.printed.results import load_papers
from phrasemt.scoring.gains import MORE_THAN_10, gains_of_pairs
from phrasemt.scoring.scores import ACCURACY, NATS
from phrasemt.scoring.significance import OverTrainings, detectable, p_text, power_among

CLAIMS: dict[str, list[dict[str, Any]]] = parse_yaml((FOLDER / "claims.yaml").read_text())
MARGIN = load_papers()["xu2020"].measures["bleu"].margin or 0.0  # a loss below it counts as none


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure of a claim. gain: with the ends of its 95 % interval, above 0 where the claim holds.

    p: None if it is not tested. detectable: by the test of p, in 80 % of experiments. text: as it is printed.
    """

    text: str
    unit: str = ""
    gain: tuple[float, float] = (0.0, 0.0)
    p: float | None = None
    detectable: float = 0.0


def borne(result: Mapping[str, Any]) -> str:
    """The verdict that figures bear, without its numbers; controls that show a gain too are named."""
    figure, expected = figure_of(result["by"]), result.get("expect", "gain")
    if figure.p is None:
        return "one training, not tested"
    if _is_shown(figure) and expected != "no difference":
        controls = {name: figure_of(text) for name, text in result.get("controls", {}).items()}
        also = " and ".join(name for name, control in controls.items() if _is_shown(control))
        return f"shown, also {also}" if also else "shown"
    if figure.p < 0.05:
        return "opposite shown"
    within = expected != "gain" and figure.unit == "BLEU" and _loss(result) <= MARGIN
    return "loss no larger than" if within else "undecided"


def _is_shown(figure: Figure) -> bool:
    return figure.p is not None and figure.p < 0.05 and figure.gain[0] > 0


def _loss(result: Mapping[str, Any]) -> float:
    """The largest loss, or difference, that the interval does not exclude."""
    low, high = figure_of(result["by"]).gain
    return max(-low, high) if result.get("expect") == "no difference" else -low


def rows(paper: str) -> list[list[str]]:
    """The table of a paper."""
    return [["claim (hedge; place)", "verdict", "why"], *map(_row, CLAIMS[paper])]


def _row(claim: Mapping[str, Any]) -> list[str]:
    place = "; ".join(claim[name] for name in ("hedge", "place") if name in claim)
    results = claim.get("results", [])
    verdicts = [f"{one['on']}: {_verdict(one)}" if len(results) > 1 else _verdict(one) for one in results]
    why = ". ".join(filter(None, [*map(_why, results), with_values(claim.get("note", ""))]))
    return [f"{claim['claim']} ({place})", "; ".join(verdicts) or f"not measured (needs {claim['needs']})", why]


def with_values(text: str) -> str:
    """A text with the values in braces: of the ledger, or a function of run_values with its arguments."""
    return re.sub(r"\{(\w+) ([^}]*)\}", _value, text)


def _value(found: re.Match[str]) -> str:
    if found[1] == "figure":
        return figure_of(found[2]).text
    if found[1] == "verdict":
        results = (one for claims in CLAIMS.values() for claim in claims for one in claim.get("results", []))
        return next(_verdict(one) for one in results if one.get("by") == found[2])
    return str(getattr(run_values, found[1])(*found[2].split()))


def _verdict(result: Mapping[str, Any]) -> str:
    if result["verdict"] == "loss no larger than":
        return f"loss no larger than {math.ceil(10 * _loss(result)) / 10:.1f}"
    if result["verdict"] != "undecided":
        return str(result["verdict"])
    figure = figure_of(result["by"])
    unit = next((unit for unit in ("%", "points", "nats", "chrF2") if figure.unit.startswith(unit)), "")
    decimals = 0 if unit in ("%", "points") else 1 if figure.unit.startswith("BLEU") else 2
    return f"undecided ({figure.detectable:.{decimals}f}{unit and ' '}{unit})"


def _why(result: Mapping[str, Any]) -> str:
    if "by" not in result:
        return ""
    others = {**result.get("controls", {}), **result.get("beside", {})}
    figures = [f"{result['on']} {figure_of(result['by']).text}"]
    return "; ".join([*figures, *(f"{name} {figure_of(text).text}" for name, text in others.items())])


@functools.cache
def figure_of(text: str) -> Figure:
    kind, *names = text.split()
    return _KINDS[kind](*names)


def _compared(
    found: MetricComparison, unit: str, system: str, other: str, *, sign: int = 1, decimals: int = 2, metric: str = ""
) -> Figure:
    """A difference. sign: -1 where less is better. metric: p is corrected where tables mark it, to their baseline."""
    shown, p, tests = found.difference, found.p_value, 1
    interval = f"{shown.low:.{decimals}f} to {shown.high:.{decimals}f}"
    if p is not None and metric and run_values.is_baseline(other, system):
        p, tests = run_values.corrected_p(system, metric), len(run_values.family_of(system)[0])
        interval += f"; p {p_text(p)}"
    tested = "" if p is None else f" ({interval})"
    low, high = sorted((sign * shown.low, sign * shown.high))
    return Figure(
        text=f"{shown.value:+.{decimals}f} {unit}{tested}, {len(runs(system))}+{len(runs(other))}",
        unit=unit,
        gain=(low, high),
        p=p,
        detectable=power_among(found.power, 0, tests=tests).detectable if found.power else 0,
    )


def _score(metric: str, unit: str, system: str, other: str) -> Figure:
    sign, decimals = -1 if metric == DEV_NATS else 1, run_values.decimals_of(metric)
    found = comparison(system, other)[metric]
    return _compared(found, unit, system, other, sign=sign, decimals=decimals, metric=metric)


def _slope(system: str, other: str, metric: str = "bleu_tok") -> Figure:
    slope = run_values.by_length(system, other, metric).slope
    assert slope is not None
    return _compared(slope, f"{'nats' if metric == NATS else 'BLEU'} per doubling", system, other)


def _words(system: str, other: str, place: str) -> Figure:
    """The gain on sources of 15 words at most (place 0), or of 16 to 30 (1)."""
    groups = run_values.by_length(system, other, "bleu_tok", (15, 30)).groups
    return _compared(list(groups.values())[int(place)], "BLEU", system, other)


def _agreement(system: str, other: str) -> Figure:
    """The difference in correct contrastive pairs with more than ten words between those that must agree."""
    files = [
        ContrastAccuracy(**_NO_PLACE, system=key, seed=run.seed, kinds=part.contrasts, decisions=part.decisions)
        for key in run_values.repeated_with(system, other)
        for run, part in zip(runs(key), parts(key), strict=True)
    ]
    (pairs,) = gains_of_pairs(files, run_values.paired_test(system, other))
    ((group, found),) = pairs.of(other, system, joint=[MORE_THAN_10]).joint.items()
    return _compared(found, f"points of {group.sentences} pairs", system, other, decimals=0)


def _of_trainings(
    value: Callable[[TestSet], float], unit: str, than: float, sign: int, decimals: int
) -> Callable[[str], Figure]:
    """A value of each training, whose mean is tested beside another value by Student's t. sign: -1 for a low value."""

    def figure(system: str) -> Figure:
        values = [value(part) for part in parts(system)]
        difference = sign * (statistics.mean(values) - than)
        scale, freedom = statistics.stdev(values) / math.sqrt(len(values)), len(values) - 1
        over = OverTrainings(value=difference, centres=np.array([difference]), scale=scale, freedom=freedom)
        return Figure(
            text=" and ".join(f"{value:.{decimals}f}" for value in values) + f" {unit}",
            unit=unit,
            gain=(over.estimate().low, over.estimate().high),
            p=over.p_value(_MANY),
            detectable=detectable(scale, freedom),
        )

    return figure


def _mass(part: TestSet, layer: int | None = None) -> float:
    """The share of attention on n-grams of two or more tokens. layer: from the top; None: all."""
    attentions = part.attention["attentions"]
    number = layer if layer is None else max(one["layer"] for one in attentions) - layer
    return statistics.mean(100 * float(sum(one["mass"][1:])) for one in attentions if number in (None, one["layer"]))


def _entropy(part: TestSet, *places: str) -> float:
    """The entropy of attentions as a share of the largest possible one."""
    chosen = [one for one in part.attention["attentions"] if one["place"] in places]
    return statistics.mean(float(one["entropy"]) / math.log(one["keys"]) for one in chosen)


def _levels(system: str) -> Figure:
    def distance(part: TestSet) -> float:
        return float(run_values.distance_of_levels(run_values.mixture(part)))

    return _of_trainings(distance, "total variation", run_values.initial_levels(system), 1, 2)(system)


def _less_entropy(phrases: Sequence[str], tokens: Sequence[str]) -> Callable[[str], Figure]:
    return _of_trainings(lambda part: _entropy(part, *phrases) - _entropy(part, *tokens), _OF_ENTROPY, 0, -1, 2)


def _untested(value: Callable[[str], str], unit: str) -> Callable[[str], Figure]:
    return lambda system: Figure(text=f"{value(system)} {unit}")


_NO_PLACE = {"dataset": "", "contrast_set": ""}
_OF_ENTROPY = "of the largest entropy"
_MANY = 1000  # items, more than limit any p
_KINDS: dict[str, Callable[..., Figure]] = {
    "bleu": functools.partial(_score, "bleu_tok", "BLEU"),
    "uncased": functools.partial(_score, "bleu_tok_uncased", "BLEU in lower case"),
    "chrf": functools.partial(_score, "chrf2", "chrF2"),
    "nats": functools.partial(_score, DEV_NATS, "nats"),
    "pairs": functools.partial(_score, ACCURACY, "points of the pairs"),
    "slope": _slope,
    "slope-nats": lambda system, other: _slope(system, other, NATS),
    "words": _words,
    "agreement": _agreement,
    "right": _of_trainings(lambda part: part.accuracy.metrics[ACCURACY].score, "% of the pairs", 50, 1, 1),
    "mass": _of_trainings(_mass, "%", 50, 1, 1),
    "mass-top": _of_trainings(lambda part: _mass(part, 0) - _mass(part, 1), "points", 0, -1, 1),
    "entropy": _less_entropy(["enc_phrases", "dec_phrases"], ["enc_self", "cross"]),
    "entropy-encoder": _less_entropy(["enc_phrases"], ["enc_self"]),
    "entropy-decoder": _less_entropy(["dec_phrases"], ["cross"]),
    "levels": _levels,
    "perplexity": _untested(run_values.to_transformer, "perplexity"),
    "boundaries": _untested(lambda system: run_values.chunks(system, "boundary_acc"), "%"),
    "labels": _untested(lambda system: run_values.chunks(system, "label_acc_paper"), "%"),
}
