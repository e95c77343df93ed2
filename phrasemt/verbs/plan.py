"""`phrasemt plan`: what the next run of a study does, why, and what it costs; `--accept`: what it need not do."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from phrasemt.errors import PhrasemtError
from phrasemt.verbs._study import add_study
from phrasemt.verbs._tables import size, table

if TYPE_CHECKING:  # it imports Snakemake, which `phrasemt --help` need not wait for
    from phrasemt.workflow.costs import Costs
    from phrasemt.workflow.plan import Job, Plan

MOST_CHANGES = 20


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser(
        "plan",
        help="what the next run of a study does, why, and what it costs",
        description="What the next run of a study would do, and why; nothing is run. Hours and disk are what finished "
        "jobs took: the same job, else those of its rule in this study, else those of other studies in this folder. "
        "With --accept, outputs count as made by the settings and the code of now, so that they are not made again: "
        "of all changed jobs, or of the rules and artefacts named. For changes that you know to be cosmetic; when an "
        "output is damaged, or one that is named was made of other inputs, nothing is accepted.",
    )
    add_study(parser)
    parser.add_argument("names", nargs="*", metavar="NAME", help="with --accept: rules or artefacts (default: all)")
    parser.add_argument("--profile", default="profiles/local", metavar="FOLDER", help="default: %(default)s")
    parser.add_argument("--accept", action="store_true", help="let outputs count as made by what is changed")
    parser.add_argument("--note", metavar="TEXT", help="with --accept: why, for the sidecars")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Prints the plan; raises PhrasemtError for mistakes of the study and for what cannot be accepted."""
    from phrasemt.workflow.accept import accept
    from phrasemt.workflow.plan import plan_of

    if not options.accept and (options.names or options.note):
        raise PhrasemtError(
            "only for --accept", where=" ".join(options.names) or "--note", next_step="see `phrasemt plan --help`"
        )
    plan = plan_of(options.study, options.profile)
    if options.accept:
        accepted = accept(plan, options.names, options.note)
        rules = Counter(job.planned.rule for job in accepted)
        print(f"accepted: {', '.join(_count(number, rule) for rule, number in rules.items())}")
        plan = plan_of(options.study, options.profile)
    for line in describe(plan):
        print(line)


def describe(plan: Plan) -> Iterator[str]:
    """The lines about a plan."""
    from phrasemt.workflow.costs import Recorded

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
    yield from (f"  {line}" for line in table(rows, to_the_right=("jobs", "core h", "GPU h", "disk")))
    yield from _basis(costs)
    yield from _unrecorded(plan)


def _unrecorded(plan: Plan) -> Iterator[str]:
    """What no run would make good: jobs that Snakemake has no record of, and their changes."""
    if plan.unrecorded:
        yield (
            f"Snakemake's records of {len(plan.unrecorded):,} finished jobs are missing, so that no changed setting or "
            "code makes them run again. Next: copy .snakemake/metadata from where they ran; or run what is changed "
            "with `snakemake --forcerun RULE`"
        )
        yield from _changed("changed, and not run again", plan.unrecorded, plan.datasets)


def _changed(heading: str, jobs: Sequence[Job], datasets: Sequence[str]) -> Iterator[str]:
    """The changes of jobs below a heading; nothing when there are none."""
    if changed := list(_changes(jobs, datasets)):
        yield heading
        yield from changed[:MOST_CHANGES]
        if (more := len(changed) - MOST_CHANGES) > 0:
            yield f"  and {more:,} more changes"


def _changes(jobs: Sequence[Job], all_datasets: Sequence[str]) -> Iterator[str]:
    """Each change once, with what it touches; of other and newer inputs one as an example, after the other changes."""
    from phrasemt.workflow.plan import CHANGES, INPUTS, NEWER

    touched: dict[tuple[str, str], list[Job]] = {}
    texts: dict[tuple[str, str], list[str]] = {}
    for job in jobs:
        for change in job.changes:
            key = (change.why, "" if change.why in (INPUTS, NEWER) else change.what)
            touched.setdefault(key, []).append(job)
            texts.setdefault(key, []).append(str(change))
    for key, those in sorted(touched.items(), key=lambda item: (CHANGES.index(item[0][0]), item[0][1])):
        text = texts[key][0] + (" and others" if len(set(texts[key])) > 1 else "")
        rules = list(dict.fromkeys(job.planned.rule for job in those))
        systems = [system for system in dict.fromkeys(job.system for job in those) if system]
        datasets = [dataset for dataset in dict.fromkeys(job.dataset for job in those) if dataset]
        of_systems = f" of {_few(systems)}" if systems else ""
        on_datasets = f" on {_few(datasets)}" if datasets and len(all_datasets) > 1 else ""
        yield f"  {text}: {_few(rules)}{of_systems}{on_datasets}"


def _why(jobs: Sequence[Job]) -> str:
    """The reasons of a rule's jobs; that others go before is one for those only that have none of their own."""
    from phrasemt.workflow.plan import FOLLOWS

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
        yield f"hours rest on earlier runs: {', '.join(known)}"
    if costs.unknown:
        few = _few([_count(number, rule) for rule, number in costs.unknown.items()])
        yield f"no such job has run here yet, so nothing is known and nothing counted of: {few}"


def _count(number: int, name: str) -> str:
    return f"{number:,} x {name}"


def _few(names: Sequence[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
