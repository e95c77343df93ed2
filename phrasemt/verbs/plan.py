"""`phrasemt plan`: show which jobs the next run has, why, and their cost. `--accept`: declare outputs up to date."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from phrasemt.errors import PhrasemtError
from phrasemt.study.reading import load_study
from phrasemt.verbs._numbers import in_range
from phrasemt.verbs._price import price_of
from phrasemt.verbs._rates import GPUS, MEASURED, UTILISATION, rate_of
from phrasemt.verbs._study import add_profile, add_study
from phrasemt.verbs._tables import size, table

if TYPE_CHECKING:  # at run time `phrasemt --help` would wait for the import of Snakemake
    from phrasemt.runs.costs import Costs
    from phrasemt.runs.plan import Job, Plan

MOST_CHANGES = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Show which jobs the next run of a study has, why, and their cost; run nothing. The cost comes "
        "from finished jobs: the same job, or else jobs of the same rule in this study, or else in other studies of "
        "this folder. With --accept, record that the existing outputs of changed jobs are valid for the present "
        "settings and code, so that the next run does not make them again; NAME restricts this to some rules or "
        "artefacts. Use it for changes that you know to have no effect, and after a copy of the folder, which changes "
        "the times of all files: it compares the contents with the sidecars. It accepts nothing when an output is "
        "damaged, or when an output that you name was made from other inputs. With --gpus, also print the price of the "
        "jobs before anything like them has run: hours, disk and memory of each rule and days on these GPUs."
    )
    add_study(parser)
    parser.add_argument("names", nargs="*", metavar="NAME", help="with --accept: rules or artefacts (default: all)")
    add_profile(parser)
    parser.add_argument("--accept", action="store_true", help="declare the outputs of changed jobs valid")
    parser.add_argument("--note", metavar="TEXT", help="with --accept: reason, recorded in the sidecars")
    parser.add_argument(
        "--gpus", type=in_range(int, 1), metavar="N", help="price on so many GPUs, one training on each"
    )
    parser.add_argument(
        "--gpu", choices=[*GPUS, MEASURED], default="a100",
        help="with --gpus: their kind (default a100), or the rate of the trainings that have finished below results/",
    )  # fmt: skip
    parser.add_argument(
        "--utilisation", type=in_range(float, 0.001, 1), default=UTILISATION, metavar="X",
        help="with --gpus: share of its stated rate that a GPU reaches in a training (default %(default)s)",
    )  # fmt: skip


def run(options: argparse.Namespace) -> None:
    """Print the plan. Raises PhrasemtError for mistakes in the study and for outputs that cannot be accepted."""
    from phrasemt.runs.accept import accept
    from phrasemt.runs.plan import plan_of

    if not options.accept and (options.names or options.note):
        raise PhrasemtError(
            "needs --accept", where=" ".join(options.names) or "--note", next_step="see `phrasemt plan --help`"
        )
    plan = plan_of(options.study, options.profile)
    if options.accept:
        accepted = accept(plan, options.names, options.note)
        rules = Counter(job.planned.rule for job in accepted)
        print(f"accepted: {', '.join(_count(number, rule) for rule, number in rules.items())}")
        plan = plan_of(options.study, options.profile)
    for line in describe(plan):
        print(line)
    if options.gpus and plan.jobs:
        study = load_study(options.study)
        rate = rate_of(options.gpu, options.utilisation)
        for line in price_of(plan, study, rate=rate, gpus=options.gpus):
            print(line)


def describe(plan: Plan) -> Iterator[str]:
    """Yield the lines that describe a plan."""
    from phrasemt.runs.costs import Recorded

    total = len(plan.jobs) + len(plan.finished)
    if not plan.jobs:
        yield f"{plan.study}: nothing to do, all {total:,} jobs are done"
        yield from _unrecorded(plan)
        return
    yield f"{plan.study}: {len(plan.jobs):,} of {total:,} jobs to run"
    yield from _changed("changed since the outputs were made", plan.jobs, plan.datasets)
    recorded = Recorded(plan.study, plan.finished)
    rules = list(dict.fromkeys(job.planned.rule for job in plan.jobs))
    rows = [("rule", "jobs", "core h", "GPU h", "disk", "why")]
    for rule in rules:
        jobs = [job for job in plan.jobs if job.planned.rule == rule]
        costs = recorded.of([job.planned for job in jobs])
        rows.append((rule, f"{len(jobs):,}", *_figures(costs), _why(jobs)))
    costs = recorded.of([job.planned for job in plan.jobs])
    rows.append(("all", f"{len(plan.jobs):,}", *_figures(costs), ""))
    yield from (f"  {line}" for line in table(rows, right_aligned=("jobs", "core h", "GPU h", "disk")))
    yield from _basis(costs)
    yield from _offer(plan)
    yield from _unrecorded(plan)


def _offer(plan: Plan) -> Iterator[str]:
    """Yield a line about jobs that need not run, because sidecars prove that only times of files differ."""
    from phrasemt.runs.plan import TIMES

    same = [job for job in plan.jobs if {reason.why for reason in job.reasons} == {TIMES}]
    if same:
        yield (
            f"{len(same):,} of these jobs need not run: inputs and outputs have the contents that the sidecars record. "
            "Next: `phrasemt plan STUDY --accept` sets the times of their outputs"
        )


def _unrecorded(plan: Plan) -> Iterator[str]:
    """Yield lines about finished jobs without Snakemake's record; no run would repeat them after a change."""
    if plan.unrecorded:
        yield (
            f"Snakemake has no records of {len(plan.unrecorded):,} finished jobs, so it does not run them again after "
            "changes of settings or code. Next: copy .snakemake/metadata from the folder in which they ran, or run the "
            "changed jobs with `snakemake --forcerun RULE`"
        )
        yield from _changed("changed, but not run again", plan.unrecorded, plan.datasets)


def _changed(heading: str, jobs: Sequence[Job], datasets: Sequence[str]) -> Iterator[str]:
    """Yield a heading and the changes of jobs, or nothing for jobs without changes."""
    if changed := list(_changes(jobs, datasets)):
        yield heading
        yield from changed[:MOST_CHANGES]
        if (more := len(changed) - MOST_CHANGES) > 0:
            yield f"  and {more:,} more changes"


def _changes(jobs: Sequence[Job], all_datasets: Sequence[str]) -> Iterator[str]:
    """Yield each change once, with the rules, systems and data sets that it affects.

    For changed and newer inputs there is one line with an example, after the other changes.
    """
    from phrasemt.runs.plan import CHANGES, INPUTS, NEWER

    affected: dict[tuple[str, str], list[Job]] = {}
    texts: dict[tuple[str, str], list[str]] = {}
    for job in jobs:
        for change in job.changes:
            key = (change.why, "" if change.why in (INPUTS, NEWER) else change.what)
            affected.setdefault(key, []).append(job)
            texts.setdefault(key, []).append(str(change))
    for key, group in sorted(affected.items(), key=lambda item: (CHANGES.index(item[0][0]), item[0][1])):
        text = texts[key][0] + (" and others" if len(set(texts[key])) > 1 else "")
        rules = list(dict.fromkeys(job.planned.rule for job in group))
        systems = [system for system in dict.fromkeys(job.system for job in group) if system]
        datasets = [dataset for dataset in dict.fromkeys(job.dataset for job in group) if dataset]
        of_systems = f" of {_few(systems)}" if systems else ""
        on_datasets = f" on {_few(datasets)}" if datasets and len(all_datasets) > 1 else ""
        yield f"  {text}: {_few(rules)}{of_systems}{on_datasets}"


def _why(jobs: Sequence[Job]) -> str:
    """Return the reasons of a rule's jobs. "Other jobs run before it" counts only for jobs without another reason."""
    from phrasemt.runs.plan import FOLLOWS

    reasons: Counter[str] = Counter()
    for job in jobs:
        reasons.update({reason.why for reason in job.reasons} - {FOLLOWS} or {FOLLOWS})
    return ", ".join(reason if number == len(jobs) else f"{number} {reason}" for reason, number in reasons.items())


def _figures(costs: Costs) -> tuple[str, str, str]:
    known = sum(costs.basis.values()) - sum(costs.unknown.values())
    hours = map(_hours, (costs.core_seconds, costs.gpu_seconds))
    core, gpu = hours if known else ("?", "?")
    return core, gpu, size(costs.bytes) if costs.bytes else "?"


def _hours(seconds: float) -> str:
    return "<0.01" if 0 < seconds < 36 else f"{seconds / 3600:.2f}" if seconds else "0"


def _basis(costs: Costs) -> Iterator[str]:
    known = [f"{_count(number, basis)}" for basis, number in costs.basis.items() if basis != "nothing"]
    if known:
        yield f"the cost comes from earlier runs: {', '.join(known)}"
    if costs.unknown:
        few = _few([_count(number, rule) for rule, number in costs.unknown.items()])
        yield f"the cost does not include these jobs, because no such job has run here yet: {few}"


def _count(number: int, name: str) -> str:
    return f"{number:,} x {name}"


def _few(names: Sequence[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
