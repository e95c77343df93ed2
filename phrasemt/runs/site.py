"""A site's own lines of the profile for Slurm, apart from the lines that come with phrasemt.

Snakemake does not merge profiles: `set-resources` of a second one replaces that of the first. So `slurm/site.yaml` has
the lines of the site, and `phrasemt slurm` lays them over `slurm/profile.yaml`, key by key, into a complete profile.
Snakemake prefers that one, because its name has a version: the highest that is not above its own. Git ignores both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import phrasemt
from phrasemt.errors import PhrasemtError
from phrasemt.files.lines import write_text
from phrasemt.files.system import digest_file
from phrasemt.files.yaml import format_yaml, parse_yaml
from phrasemt.machine.slurm import partitions

FOLDER = Path("slurm")
PARTITION = "slurm_partition"  # the resource that names it
DELIVERED, SITE, COMPLETE = FOLDER / "profile.yaml", FOLDER / "site.yaml", FOLDER / "profile.v9+.yaml"
# Resources whose values are names.
_NAMES = (PARTITION, "slurm_account", "qos", "constraint", "gpu_model", "gres", "reservation", "clusters")
_NAME = re.compile(r"[\w.:,+@&|-]*[^\W\d][\w.:,+@&|-]*")
_TIME = re.compile(r"(\d+-)?\d+(:\d+){0,2}")
_UNITS = re.compile(r"(?=\d)(?:(\d+)d)? *(?:(\d+)h)? *(?:(\d+)m)?")  # 12h30m
_UNLIMITED, _YEAR = ("unlimited", "infinite"), 365 * 24 * 60
_HEAD = "# Written by `phrasemt slurm`; change slurm/site.yaml and call it again. Made from slurm/profile.yaml {}\n"
_EXPLAINED = """\
# The lines of this site, laid over slurm/profile.yaml key by key by `phrasemt slurm`; null removes a key. For example
#   default-resources: {slurm_account: NAME, qos: NAME, constraint: NAME}
#   set-resources: {train_model: {gpu: 2, processes: 2, runtime: 2880}}
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
            result[key] = _minutes(value)
    return result


def _minutes(time: str) -> int:
    """A time of Slurm: 1-12, 1-12:30, 1-12:30:00, 12:30:00, or 30:00, which are minutes and seconds."""
    days, has_days, rest = time.rpartition("-")
    numbers = [int(number) for number in rest.split(":")]
    hours, minutes, seconds = ([0, *numbers] if len(numbers) == 2 and not has_days else [*numbers, 0, 0])[:3]
    return (int(days or 0) * 24 + hours) * 60 + minutes + (seconds > 0)


def write_site() -> list[Path]:
    """Write the complete profile, and before it the lines of the site as Slurm reports them, if there are none yet.

    Returns the files that were written. Raises PhrasemtError when the lines cannot be read or Slurm does not answer.
    """
    delivered = parse_yaml(DELIVERED.read_text(encoding="utf-8"))
    written = []
    if not SITE.exists():
        write_text(SITE, _EXPLAINED + format_yaml(_lines_of_this_cluster(delivered)))
        written.append(SITE)
    try:
        lines = parse_yaml(SITE.read_text(encoding="utf-8")) or {}
        if rules := lines.get("set-resources"):
            lines["set-resources"] = {rule: _resources_of_snakemake(of_rule) for rule, of_rule in rules.items()}
        if usual := lines.get("default-resources"):
            lines["default-resources"] = _resources_of_snakemake(usual)
        complete = merged(delivered, lines)
    except (ValueError, AttributeError) as error:
        next_step = f"correct it, or remove it and call `phrasemt slurm`. {DELIVERED} shows the keys"
        raise PhrasemtError("not a mapping in YAML", where=SITE, found=str(error), next_step=next_step) from None
    write_text(COMPLETE, _HEAD.format(digest_file(DELIVERED)) + format_yaml(complete))
    return [*written, COMPLETE]


def _lines_of_this_cluster(delivered: Mapping[str, Any]) -> dict[str, Any]:
    usual, with_gpus = partitions()
    on_gpus = [rule for rule, resources in delivered["set-resources"].items() if "gpu" in resources]
    lines = {PARTITION: with_gpus} if with_gpus else {PARTITION: None, "gpu": None}
    return {"default-resources": {PARTITION: usual}, "set-resources": dict.fromkeys(on_gpus, lines)}


def outdated_site() -> str | None:
    """What to say when the complete profile was made from another profile than the present one; None otherwise."""
    if not COMPLETE.is_file() or not DELIVERED.is_file():
        return None
    with COMPLETE.open(encoding="utf-8") as stream:
        if digest_file(DELIVERED) in stream.readline():
            return None
    return f"{DELIVERED} has changed since {COMPLETE} was made from it. Next: `phrasemt slurm`"


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
