"""`phrasemt plan`: show which jobs the next run has, why, and what they cost."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from phrasemt.artefacts.paths import Paths
from phrasemt.artefacts.table import Table
from phrasemt.commands._arguments import add_json, add_profile, add_study, choose, in_range
from phrasemt.commands._prices import DEFAULT, GPUS, Prices, rate_here, rate_of
from phrasemt.errors import PhrasemtError
from phrasemt.machine.gpus import visible_gpus
from phrasemt.runs.costs import Costs, Recorded, seconds_needed
from phrasemt.runs.display import about, counted, size, table, two_digits
from phrasemt.runs.notes import latest_run
from phrasemt.runs.plan import CHANGES, FOLLOWS, INPUTS, NEWER, PROFILE, Job, Plan, plan_of
from phrasemt.runs.site import outdated_site
from phrasemt.runs.status import seconds_to_start, status_of
from phrasemt.scoring.significance import detectable
from phrasemt.study.reading import load_study
from phrasemt.workflow.changes import without_place
from phrasemt.workflow.check import missing_texts

log = logging.getLogger("phrasemt.plan")

MOST_CHANGES, MOST_NAMED = 20, 6
PUBLISHED = 0.45  # BLEU, of trainings on Multi30k (docs/findings.md)
_MOST_SEEDS = 1_000
_KEY = "bleu_tok"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Show which jobs the next run of a study has, why, and their cost; run nothing. The cost comes from finished "
        "jobs of this study: the same job, or else jobs of the same rule. Without them it is an estimate, by the speed "
        "of finished trainings of similar models and built-in figures. With --gpus or --gpu-model, all costs are such "
        "estimates, with the days on these GPUs. With --detect: the trainings that each system needs, and their cost."
    )
    add_study(parser)
    add_profile(parser)
    add_json(parser)
    parser.add_argument("--gpus", type=in_range(int, 1), metavar="N", help="GPUs, one training on each (default 1)")
    parser.add_argument(
        "--gpu-model", choices=GPUS,
        help=f"their kind (default: that of finished trainings below results/, or else {DEFAULT})",
    )  # fmt: skip
    parser.add_argument(
        "--detect", type=in_range(float, 0.01, 100), metavar="GAIN",
        help="a gain in BLEU: the seeds of each system with which it is significant in 80 of 100 replications, their "
        "cost, and what the study can detect now; by the deviation between finished trainings of the study, or of "
        f"other studies below results/, or the published {PUBLISHED}",
    )  # fmt: skip
    parser.add_argument(
        "--systems", nargs=2, metavar=("BASELINE", "SYSTEM"),
        help="for --detect: two systems, whose difference alone is tested (default: all that the table tests together)",
    )  # fmt: skip


def run(options: argparse.Namespace) -> None:
    """Print the plan, or the price of the trainings where texts are missing.

    Raises PhrasemtError for mistakes in the study, or when Snakemake cannot plan it.
    """
    study, gpus = load_study(options.study), options.gpus or (1 if options.gpu_model else None)
    if options.systems and not options.detect:
        raise PhrasemtError("--systems has no effect without --detect", next_step="phrasemt plan STUDY --detect GAIN")
    if options.profile != PROFILE and (outdated := outdated_site()) is not None:
        log.warning("phrasemt plan: warning: %s", outdated)
    missing = list(missing_texts(study))
    if options.json and (options.detect or missing):
        raise PhrasemtError(
            "--json prints a list of jobs", found="; ".join(missing) or "--detect", next_step="leave it out"
        )
    plan = None if options.detect or missing else plan_of(options.study, options.profile)
    on_cluster = options.profile != PROFILE  # which is for GPUs
    on_gpu = any(job.planned.gpus for job in plan.jobs) if plan else on_cluster or bool(visible_gpus())
    rate = rate_of(options.gpu_model) if options.gpu_model else rate_here(on_gpu=bool(gpus) or on_gpu)
    prices = Prices(study, rate)
    if options.detect:
        print(*describe_power(prices, options.detect, options.systems), sep="\n")
        return
    if plan is None:
        print(*_without_texts(prices, missing), sep="\n")
        return
    if options.json:
        print(json.dumps(_values(plan, prices, gpus), indent=1))
        return
    print(*describe(plan, prices, gpus), sep="\n")


def _without_texts(prices: Prices, missing: Sequence[str]) -> Iterator[str]:
    """The price of the trainings of a study whose texts are missing, so that its jobs cannot be listed."""
    study, unit = prices.study, "GPU h" if prices.rate.on_gpu else "core h"
    yield f"{study.study}: the price of the trainings only, because texts are missing: {'; '.join(missing)}"
    hours = {name: prices.hours_of_training(name) * len(study.seeds_of(name)) for name in study.models}
    rows = [("system", "trainings", unit)]
    rows += [(name, f"{len(study.seeds_of(name)):,}", f"{value:,.2f}") for name, value in hours.items()]
    rows.append(("all", "", f"{sum(hours.values()):,.2f}"))
    yield from table(rows, right_aligned=rows[0][1:], indent="  ")
    yield from prices.basis()


def describe(plan: Plan, prices: Prices, gpus: int | None = None) -> Iterator[str]:
    """Yield the lines that describe a plan.

    gpus: number of GPUs on which all jobs are priced; None for the cost by finished jobs, as far as there are any.
    """
    total = len(plan.jobs) + plan.finished
    if plan.jobs:
        yield f"{plan.study}: {len(plan.jobs):,} of {total:,} jobs to run"
        yield from _changed("changed since the outputs were made", plan.jobs, plan.datasets)
        yield from _costs(plan, prices, gpus)
    else:
        yield f"{plan.study}: nothing to do, all {total:,} jobs are done"
    if plan.absent:
        yield (
            f"missing, but no job needs it now: {_few(plan.absent)}. To make a file again: "
            "`phrasemt run STUDY --snakemake FILE`"
        )
    if plan.unrecorded:
        yield (
            f"Snakemake has no records of {len(plan.unrecorded):,} finished jobs, so it does not run them again after "
            "changes of settings or code. Next: copy .snakemake/metadata from the folder in which they ran, or run the "
            "changed jobs with `snakemake --forcerun RULE`"
        )
        yield from _changed("changed, but not run again", plan.unrecorded, plan.datasets)


def _changed(heading: str, jobs: Sequence[Job], datasets: Sequence[str]) -> Iterator[str]:
    """Yield a heading and each change once, with the rules, systems and data sets that it affects.

    For changed and newer inputs there is one line with an example, after the other changes.
    """
    affected: dict[tuple[int, str], list[tuple[Job, str]]] = {}
    for job in jobs:
        for change in job.changes:
            what = "" if change.why in (INPUTS, NEWER) else without_place(change.what)
            affected.setdefault((CHANGES.index(change.why), what), []).append((job, str(change)))
    if affected:
        yield heading
    for (_, what), group in sorted(affected.items(), key=lambda item: item[0])[:MOST_CHANGES]:
        texts = dict.fromkeys(text for _, text in group)
        others = " and others" if not what and len(texts) > 1 else ""
        line = f"  {next(iter(texts))}{others}: {_few(job.planned.rule for job, _ in group)}"
        for word, key in (("of", "system"), ("on", "dataset")):
            names = [job.planned.wildcards[key] for job, _ in group if key in job.planned.wildcards]
            if names and (key == "system" or len(datasets) > 1):
                line += f" {word} {_few(names)}"
        yield line
    if (more := len(affected) - MOST_CHANGES) > 0:
        yield f"  and {more:,} more changes"


def _costs(plan: Plan, prices: Prices, gpus: int | None) -> Iterator[str]:
    """Yield the tables of rules and systems with the costs of their jobs, the reasons, and what the costs rest on."""
    costs_of = _priced(plan, prices, gpus)
    costs, total = dict[str, Costs](), Costs(jobs=0)
    for job, one in costs_of:
        costs.setdefault(job.planned.rule, Costs(jobs=0)).add(one)
        total.add(one)
    rows: list[tuple[str, ...]] = [("rule", "jobs", "core h", "GPU h", "disk", "why")]
    for rule, one in [*costs.items(), ("all", total)]:
        estimated = bool(gpus or one.estimated)
        hours = [_hours(hours, estimated=estimated) for hours in (one.core_hours, one.gpu_hours)]
        why = _why([job for job in plan.jobs if job.planned.rule == rule])
        rows.append((rule, f"{one.jobs:,}", *hours, size(one.bytes) if one.bytes else "", why))
    yield from table(rows, right_aligned=rows[0][1:-1], indent="  ")
    yield from _systems(costs_of, estimated=bool(gpus))
    if gpus:
        yield from _days(prices, costs_of, total.gpu_hours, gpus)
    else:
        start = 0.0 if plan.cores else _seconds_to_start(plan.study)
        needed = [(job.planned, start + one.seconds(job.planned)) for job, one in costs_of]
        where = f"on {counted(plan.cores, 'core')}" if plan.cores else "or more, the longest chain"
        if not plan.cores:
            measured = f", with {about(start)} for Slurm to start a job, as in the last run"
            where += measured if start else ", without the time that jobs wait for Slurm"
        yield f"time: {about(seconds_needed(needed, plan.cores))} {where}"
    if gpus or total.estimated:
        assumed, *left_out = prices.basis()
        yield ("" if gpus else "~: no such job has finished here yet; ") + assumed
        yield from left_out


def _seconds_to_start(study: str) -> float:
    """How long a job waited for Slurm in the last run of a study; 0 if that is not known."""
    with contextlib.suppress(PhrasemtError):  # the note is of another version
        if path := latest_run(study):
            status = status_of(path, datetime.now(UTC))
            return seconds_to_start(status.run, status.jobs)
    return 0.0


def _priced(plan: Plan, prices: Prices, gpus: int | None) -> list[tuple[Job, Costs]]:
    """Each job to run with its costs. gpus: as in `describe`."""
    recorded = Recorded(plan.study)
    costs_of = []
    for job in plan.jobs:
        estimate = prices.of(job.planned)
        costs = estimate if gpus else recorded.of(job.planned, estimate)
        costs_of.append((job, replace(costs, core_hours=costs.core_hours * prices.share_to_annotate(job.planned))))
    return costs_of


def _values(plan: Plan, prices: Prices, gpus: int | None) -> dict[str, Any]:
    """A plan for programs. estimated: by prices, without a finished job like it."""
    jobs = [
        {"rule": job.planned.rule, "name": job.planned.name, "outputs": job.planned.outputs}
        | {"reasons": [asdict(reason) for reason in job.reasons]}
        | {"core_hours": costs.core_hours, "gpu_hours": costs.gpu_hours, "bytes": costs.bytes}
        | {"estimated": bool(gpus or costs.estimated)}
        for job, costs in _priced(plan, prices, gpus)
    ]
    named = {"study": plan.study, "finished": plan.finished, "missing": plan.absent}
    return {**named, "unrecorded": len(plan.unrecorded), "jobs": jobs, "assumed": list(prices.basis())}


def _systems(costs_of: Sequence[tuple[Job, Costs]], *, estimated: bool) -> Iterator[str]:
    """Yield a table of the GPU hours of each system, where any are known: all of them, and those of its trainings."""
    hours: dict[str, list[float]] = {}
    estimated = estimated or any(costs.estimated for _, costs in costs_of)
    for job, costs in costs_of:
        if (system := job.planned.wildcards.get("system")) is not None:
            of_system = hours.setdefault(system, [0, 0])
            of_system[0] += costs.gpu_hours
            of_system[1] += costs.gpu_hours if job.planned.rule == "train_model" else 0
    rows: list[tuple[str, ...]] = [("system", "GPU h", "of which training")]
    rows += [(name, *(_hours(one, estimated=estimated) for one in both)) for name, both in hours.items() if both[0]]
    if rows[1:]:
        yield from table(rows, right_aligned=rows[0][1:], indent="  ")


def _days(prices: Prices, costs_of: Sequence[tuple[Job, Costs]], gpu_hours: float, gpus: int) -> Iterator[str]:
    """Yield the days that all jobs take on this number of GPUs, one job on each."""
    longest, its_price = max(costs_of, key=lambda one: one[1].gpu_hours)
    name, its_hours = longest.planned.wildcards.get("system", longest.planned.rule), its_price.gpu_hours
    hint = f"; more GPUs for {name} alone shorten it (docs/clusters.md)" if its_hours > gpu_hours / gpus else ""
    yield (
        f"{about(3600 * max(gpu_hours / gpus, its_hours))} on {gpus} x {prices.rate.device}; the longest job, {name}, "
        f"takes {about(3600 * its_hours)}{hint}"
    )


def _why(jobs: Sequence[Job]) -> str:
    """Return the reasons of a rule's jobs. "Other jobs run before it" counts only for jobs without another reason."""
    reasons: Counter[str] = Counter()
    for job in jobs:
        reasons.update({reason.why for reason in job.reasons} - {FOLLOWS} or {FOLLOWS})
    return ", ".join(reason if number == len(jobs) else f"{number} {reason}" for reason, number in reasons.items())


def _hours(hours: float, *, estimated: bool) -> str:
    if not hours:
        return ""
    return "~" * estimated + ("<0.01" if hours < 0.01 else two_digits(hours) if estimated else f"{hours:,.2f}")


def _few(names: Iterable[str]) -> str:
    """Return the first of some different names."""
    chosen = list(dict.fromkeys(names))
    return ", ".join(chosen[:MOST_NAMED]) + (f" and {more} more" if (more := len(chosen) - MOST_NAMED) > 0 else "")


def describe_power(prices: Prices, gain: float, pair: Sequence[str] | None = None) -> Iterator[str]:
    """Yield the trainings that a gain needs to be marked, what they cost, and what the study as it stands would show.

    The test is that of the table (phrasemt/scoring/significance.py), by the deviation between trainings alone: p < 0.05
    in 80 % of all repetitions at the first step of Holm, with deviations pooled over the systems of each kind
    (`known_deviation`). gain: in BLEU. pair: a baseline and a system, if nothing else is tested.

    Raises PhrasemtError for a study in which no system is compared with another one in BLEU, and for an unknown system.
    """
    study = prices.study
    names = [choose("system", name, study.translating) for name in pair] if pair else study.translating
    seeds = {name: len(study.seeds_of(name)) for name in names}
    compared = {names[1]: names[0]} if pair else {name: one for name, one in study.baselines.items() if name in seeds}
    if not compared or len(seeds) < 2:
        raise PhrasemtError(
            "nothing to detect",
            where=study.study,
            expected="two systems that translate",
            found=", ".join(names) or ", ".join(study.systems),
        )
    kinds = {name: study.pool_groups[name] for name in names}
    deviations = {kind: known_deviation(study.study, kind) for kind in kinds.values()}

    def shown(name: str, trainings: Mapping[str, int]) -> float | None:
        """The difference of a system to its baseline that would be marked; None if it is not tested."""
        variances: dict[str, float] = {}
        for side in (name, compared[name]):
            variances[kinds[side]] = variances.get(kinds[side], 0.0) + deviations[kinds[side]][0] ** 2 / trainings[side]
        freedom = {kind: sum(trainings[one] - 1 for one in names if kinds[one] == kind) for kind in variances}
        if not all(freedom.values()) or max(trainings[name], trainings[compared[name]]) == 1:
            return None
        total = sum(variances.values())
        of_welch = total**2 / sum(variance**2 / freedom[kind] for kind, variance in variances.items())
        return detectable(math.sqrt(total), of_welch, len(compared))

    def enough(name: str) -> int | None:
        for number in range(2, _MOST_SEEDS + 1):
            if (difference := shown(name, dict.fromkeys(names, number))) is not None and difference <= gain:
                return number
        return None

    needed = {name: enough(name) for name in compared}
    for baseline in {*compared.values()}:
        of_pairs = [needed[name] for name, other in compared.items() if other == baseline]
        needed.setdefault(baseline, None if None in of_pairs else max(filter(None, of_pairs)))
    corrected = f", corrected for {len(compared)} systems (Holm)" if len(compared) > 1 else ""
    differ = (f"{kind} {value:.2f} BLEU ({basis})" for kind, (value, basis) in deviations.items())
    yield (
        f"{study.study}: BLEU that is significant in 80 of 100 replications (p < 0.05{corrected}), by the standard "
        f"deviation between seeds: {'; '.join(differ)}; the choice of test sentences is not counted"
    )
    unit = "GPU h" if prices.rate.on_gpu else "core h"
    heading = ("system", "seeds", "detectable", unit, f"for {gain:g}", unit)
    rows: list[tuple[str, ...]] = [heading]
    total = [0.0, 0.0]  # hours now, and for the gain
    for name, number in seeds.items():
        marked = shown(name, seeds) if name in compared else None
        hours, trainings = prices.hours_of_training(name) if name in study.models else 0.0, needed[name]
        total = [total[0] + hours * number, total[1] + hours * (trainings or 0)]
        after = ("too many", "") if trainings is None else (f"{trainings:,}", f"{hours * trainings:,.2f}")
        text = "" if name not in compared else "not tested" if marked is None else f"{marked:.2f}"
        rows.append((name, f"{number:,}", text, f"{hours * number:,.2f}", *after))
    rows.append(("all", "", "", f"{total[0]:,.2f}", "", "" if None in needed.values() else f"{total[1]:,.2f}"))
    yield from table(rows, right_aligned=heading[1:], indent="  ")
    if max(seeds.values()) == 1:
        yield "now: no system has several seeds, so no difference is tested"
    if None in needed.values():
        yield f"too many: a gain of {gain:g} needs more than {_MOST_SEEDS:,} trainings of each system"
    yield from prices.basis()


def known_deviation(study: str, kind: str) -> tuple[float, str]:
    """The deviation of BLEU between trainings of systems of a kind, and whose it is.

    That of the study, or else that of all studies below results/, pooled, or else `PUBLISHED`.
    """
    squares: dict[str, tuple[float, float]] = {}  # with degrees of freedom
    for path in sorted(Path().glob(Paths.table.glob)):
        try:
            read = Table.read(path)
        except PhrasemtError:
            continue  # of another version
        cells = [
            row.cells[_KEY]
            for block in read.blocks
            for row in block.rows
            if _KEY in row.cells and read.pool_groups[row.system] == kind
        ]
        varied = [(cell.deviation, len(cell.by_seed or {}) - 1) for cell in cells if cell.deviation]
        if varied:
            test_sets = sum(_KEY in row.cells for block in read.blocks for row in block.rows[:1])
            of_all = sum(value**2 * freedom for value, freedom in varied), sum(freedom for _, freedom in varied)
            squares[read.study] = of_all[0] / test_sets, of_all[1] / test_sets
    chosen = {study: squares[study]} if study in squares else squares
    if not chosen:
        return PUBLISHED, "published: Multi30k"
    freedom = sum(degrees for _, degrees in chosen.values())
    deviation = math.sqrt(sum(square for square, _ in chosen.values()) / freedom)
    return deviation, f"of {', '.join(chosen)}, {freedom:.0f} degrees of freedom"
