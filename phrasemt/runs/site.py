"""A site's own lines of the profile for Slurm, apart from the lines that come with phrasemt.

Snakemake does not merge profiles: `set-resources` of a second one replaces that of the first. So `slurm/site.yaml` has
the lines of the site, and `phrasemt slurm` lays them over `slurm/profile.yaml`, key by key, into a complete profile.
Snakemake prefers that one, because its name has a version: the highest that is not above its own. Git ignores both.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import phrasemt
from phrasemt.errors import PhrasemtError, did_you_mean
from phrasemt.files.lines import write_text
from phrasemt.files.system import digest_file
from phrasemt.files.yaml import format_yaml, parse_yaml
from phrasemt.machine.slurm import Accounting, Limits, Partition, accounting, lowest, minutes_of, partitions
from phrasemt.stages import STAGES

FOLDER = Path("slurm")
PARTITION = "slurm_partition"  # the resource that names it
DELIVERED, SITE, COMPLETE = FOLDER / "profile.yaml", FOLDER / "site.yaml", FOLDER / "profile.v9+.yaml"
# Resources whose values are names.
_NAMES = (PARTITION, "slurm_account", "qos", "constraint", "gpu_model", "gres", "clusters")
# The other resources that Slurm's plugin or a rule knows.
_NUMBERS = (
    *("runtime", "mem_mb", "mem_mb_per_cpu", "cpus_per_task", "cpus_per_gpu", "gpu", "nodes", "tasks", "tasks_per_gpu"),
    *("tasks_per_node", "mpi", "slurm_extra", "processes", "minutes"),
)
_OF_RULES = ("set-resources", "set-threads", "groups")  # sections of a profile, with the names of rules
_LIMITED = ("default-resources", "set-resources", "set-threads")  # sections whose numbers have limits
LIMITS = "limits"  # of jobs in each partition, in the lines of the site
_NAME = re.compile(r"[\w.:,+@&|-]*[^\W\d][\w.:,+@&|-]*")
_TIME = re.compile(r"(\d+-)?\d+(:\d+){0,2}")
_UNITS = re.compile(r"(?=\d)(?:(\d+)d)? *(?:(\d+)h)? *(?:(\d+)m)?")  # 12h30m
_UNLIMITED, _YEAR = ("unlimited", "infinite"), 365 * 24 * 60
_WARNING = re.compile(r"(--signal=\S*@)(\d+)")  # seconds before the end of a job
_HEAD = "# Written by `phrasemt slurm`; change slurm/site.yaml and call it again. Made from files with sha256 {}\n"
_EXPLAINED = """\
# The lines of this site, laid over slurm/profile.yaml key by key by `phrasemt slurm`; null removes a key. For example
#   default-resources: {slurm_account: NAME, qos: NAME, constraint: NAME}
#   set-resources: {train_model: {gpu: 2, processes: 2, runtime: 2880}}
# No job asks for more than the limits of its partition: minutes, MB, and cores of a node. Those of accounts and of
# qualities of service (sacctmgr) are asked at each call.
"""


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Mappings as one, key by key at every level: values of `above` go before those of `below`, and None removes."""
    result = {**below}
    for key, value in above.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            under = result.get(key)
            result[key] = merged(under if isinstance(under, Mapping) else {}, value)
        else:
            result[key] = value
    return result


def _resources_of_snakemake(resources: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Resources of a rule as Snakemake must read them. It evaluates text as Python, and knows no times of Slurm.

    A partition `all` would be the function of that name, and `int-long` a subtraction. None, which removes, stays.
    """
    if resources is None:
        return None
    result = dict(resources)
    for key, value in resources.items():
        if key in _NAMES and isinstance(value, str) and _NAME.fullmatch(value):
            result[key] = f"'{value}'"
        elif key != "runtime" or not isinstance(value, str) or value.isdecimal():
            continue
        elif value.lower() in _UNLIMITED:
            result[key] = _YEAR
        elif units := _UNITS.fullmatch(value):
            days, hours, minutes = (int(number or 0) for number in units.groups())
            result[key] = (days * 24 + hours) * 60 + minutes
        elif _TIME.fullmatch(value):
            result[key] = minutes_of(value)
    return result


def write_site() -> list[str]:
    """Write the complete profile, and before it the lines of the site as Slurm reports them, if there are none yet.

    Returns a line about each file. Raises PhrasemtError when the lines cannot be read or have unknown names, and when
    Slurm does not answer the first time.
    """
    delivered = parse_yaml(DELIVERED.read_text(encoding="utf-8"))
    told = []
    every, database = [] if SITE.exists() else partitions(), Accounting({}, {})
    if every:
        lines, choice = _lines_of_this_cluster(delivered, every)
        write_text(SITE, _EXPLAINED + format_yaml(lines))
        told.append(f"wrote {SITE}{choice}")
    try:
        lines = parse_yaml(SITE.read_text(encoding="utf-8")) or {}
        limits = {name: _resources_of_snakemake(limit) or {} for name, limit in (lines.pop(LIMITS, None) or {}).items()}
        if rules := lines.get("set-resources"):
            lines["set-resources"] = {rule: _resources_of_snakemake(of_rule) for rule, of_rule in rules.items()}
        if usual := lines.get("default-resources"):
            lines["default-resources"] = _resources_of_snakemake(usual)
        problems = list(_unknown_names(lines))
        complete = {key: {} for key in _LIMITED} | merged(delivered, lines)
        if "clusters" not in str(complete):  # sinfo knows the partitions of one cluster
            with contextlib.suppress(PhrasemtError):  # no Slurm here, or it does not answer
                every, database = every or partitions(), accounting()
        problems += _unknown_to_slurm(complete, limits, every, database)
        complete = _within_limits(complete, limits, {one.name: one.qos for one in every}, database)
    except (ValueError, AttributeError, TypeError) as error:
        next_step = f"correct it, or remove it and call `phrasemt slurm`. {DELIVERED} shows the keys"
        raise PhrasemtError("not a mapping in YAML", where=SITE, found=str(error), next_step=next_step) from None
    if problems:
        raise PhrasemtError("; ".join(problems), where=SITE, next_step="correct it, then `phrasemt slurm` again")
    digests = f"{digest_file(DELIVERED)} {digest_file(SITE)}"
    sections = {key: value for key, value in complete.items() if value != {}}  # Snakemake refuses empty ones
    write_text(COMPLETE, _HEAD.format(digests) + format_yaml(sections))
    return [*told, f"wrote {COMPLETE}"]


def _unknown_names(lines: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with names of rules and resources. A limit for all jobs together may have any name."""
    allowed = {*_NAMES, *_NUMBERS, *(lines.get("resources") or {})}
    used = [("default-resources", lines.get("default-resources") or {})]
    for section in _OF_RULES:
        for rule, resources in (lines.get(section) or {}).items():
            if rule not in STAGES:
                yield f"{section}: no such rule: {rule}{did_you_mean(rule, STAGES)}"
            if section == "set-resources":
                used.append((f"{section}: {rule}", resources or {}))
    for place, resources in used:
        for name in resources.keys() - allowed:
            yield f"{place}: no such resource: {name}{did_you_mean(name, allowed)}"


def _unknown_to_slurm(
    profile: Mapping[str, Any], limits: Mapping[str, Any], every: Iterable[Partition], database: Accounting
) -> Iterator[str]:
    """Yield the partitions, accounts and qualities of service that Slurm does not have, where it says which it has."""
    known = {
        PARTITION: ("partition", {one.name for one in every}),
        "slurm_account": ("account", {account for account, _ in database.associations if account}),
        "qos": ("quality of service", set(database.qos)),
    }
    of_rules = profile["default-resources"], *profile["set-resources"].values()
    for key, (what, names) in known.items():
        asked = {_name(resources, key) for resources in of_rules} | (set(limits) if key == PARTITION else set())
        for value in sorted(asked):
            if names and _NAME.fullmatch(value) and (absent := set(value.split(",")) - names):
                yield f"no such {what}: {', '.join(sorted(absent))} (Slurm has {', '.join(sorted(names))})"


def _name(resources: Mapping[str, Any], key: str) -> str:
    """The name that a resource has as its value, or nothing. Slurm writes accounts and qualities of service small."""
    name = str(resources.get(key) or "").strip("'")
    return name if key == PARTITION else name.lower()


def _within_limits(
    profile: dict[str, Any], limits: Mapping[str, Limits], qos: Mapping[str, str], database: Accounting
) -> dict[str, Any]:
    """A profile in which no job asks for more than it may have, and is warned after half of its time.

    limits, qos: of partitions.
    """
    usual, of_rules, threads = (profile[section] for section in _LIMITED)

    def limit_of(resources: Mapping[str, Any]) -> Limits:
        partition, account, own_qos = (_name(resources, key) for key in (PARTITION, "slurm_account", "qos"))
        of_jobs = database.limits(partition, qos.get(partition, ""), account, own_qos)
        return lowest(limits.get(partition, {}), of_jobs)

    def limited(own: Mapping[str, Any]) -> dict[str, Any]:
        """The resources of a rule: its own, and usual ones that would not fit into its own partition."""
        asked, result = usual | own, dict(own)
        limit = limit_of(asked)
        for key in ("runtime", "mem_mb"):
            if key in limit and key in asked and own.keys() & {key, PARTITION, "slurm_account", "qos"}:
                result[key] = _at_most(limit[key], asked[key])
        if isinstance(minutes := result.get("runtime"), int) and isinstance(extra := result.get("slurm_extra"), str):
            for warning in _WARNING.finditer(extra):
                result["slurm_extra"] = extra.replace(warning[0], f"{warning[1]}{min(int(warning[2]), 30 * minutes)}")
        return result

    return profile | {
        "default-resources": limited(usual),
        "set-resources": {rule: limited(own) for rule, own in of_rules.items()},
        "set-threads": {
            rule: _at_most(limit_of(usual | of_rules.get(rule, {})).get("cores", number), number)
            for rule, number in threads.items()
        },
    }


def _at_most(limit: int, value: Any) -> Any:
    """A number, or an expression of Snakemake, that is not above a limit."""
    return min(limit, value) if isinstance(value, int) else f"min({limit}, {value})"


def _lines_of_this_cluster(delivered: Mapping[str, Any], every: Sequence[Partition]) -> tuple[dict[str, Any], str]:
    """The first lines of a site, and which of several partitions with GPUs they name."""
    usual = next((one for one in every if one.usual), every[0])
    with_gpus = sorted(
        (one for one in every if one.gpus),
        key=lambda one: (one.limits.get("runtime", math.inf), one.gpus),
        reverse=True,
    )
    on_gpus = [rule for rule, resources in delivered["set-resources"].items() if "gpu" in resources]
    lines = {PARTITION: with_gpus[0].name} if with_gpus else {PARTITION: None, "gpu": None}
    names, choice = ", ".join(one.name for one in with_gpus), ""
    if len(with_gpus) > 1:
        why = "whose jobs may be longest, or else which has the most GPUs; change it there"
        choice = f"; of the partitions with GPUs ({names}) it names {with_gpus[0].name}, {why}"
    values = {"default-resources": {PARTITION: usual.name}, "set-resources": dict.fromkeys(on_gpus, lines)}
    return values | {LIMITS: {one.name: dict(one.limits) for one in every}}, choice


def outdated_site() -> str | None:
    """What to say when the complete profile was made from other files than the present ones; None otherwise."""
    if not DELIVERED.is_file() or not (SITE.is_file() or COMPLETE.is_file()):
        return None
    head = COMPLETE.read_text(encoding="utf-8").partition("\n")[0] if COMPLETE.is_file() else ""
    for path in (DELIVERED, SITE):
        if path.is_file() and digest_file(path) not in head:
            return f"{path} has changed since {COMPLETE} was made from it. Next: `phrasemt slurm`"
    return None


CHECKOUT = Path(phrasemt.__file__).parents[1]  # the installed one


def of_checkout(name: str) -> str:
    """A file or folder of the current folder, or else of the checkout that is installed."""
    return name if Path(name).exists() or not (CHECKOUT / name).exists() else str(CHECKOUT / name)


def make_cache_of_snakemake() -> None:
    """Make the folder without which Snakemake ends with a traceback. Raises PhrasemtError where it cannot be made."""
    from snakemake.common import get_appdirs

    folder = get_appdirs().user_cache_path
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        next_step = "set HOME or XDG_CACHE_HOME to a folder that you can write"
        what = "Snakemake's cache cannot be made"
        raise PhrasemtError(what, where=folder, found=error.strerror, next_step=next_step) from None
