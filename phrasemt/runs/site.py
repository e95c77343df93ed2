"""A site's own lines of the profile for Slurm, apart from the lines that come with phrasemt.

Snakemake does not merge profiles: `set-resources` of a second one replaces that of the first. So `slurm/site.yaml` has
the lines of the site, and `phrasemt slurm` lays them over `slurm/profile.yaml`, key by key, into a complete profile.
Snakemake prefers that one, because its name has a version: the highest that is not above its own. Git ignores both.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phrasemt.errors import PhrasemtError
from phrasemt.files.digests import digest_file
from phrasemt.files.lines import write_text
from phrasemt.files.yaml import format_yaml, parse_yaml
from phrasemt.machine.slurm import partitions

FOLDER = Path("slurm")
PARTITION = "slurm_partition"  # the resource that names it
DELIVERED, SITE, COMPLETE = FOLDER / "profile.yaml", FOLDER / "site.yaml", FOLDER / "profile.v9+.yaml"
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
        complete = merged(delivered, lines)
    except (ValueError, AttributeError) as error:
        next_step = f"correct it, or remove it and call `phrasemt slurm`. {DELIVERED} shows the keys"
        raise PhrasemtError("not a mapping in YAML", where=SITE, found=str(error), next_step=next_step) from None
    write_text(COMPLETE, _HEAD.format(digest_file(DELIVERED)) + format_yaml(complete))
    return [*written, COMPLETE]


def _lines_of_this_cluster(delivered: Mapping[str, Any]) -> dict[str, Any]:
    usual, with_gpus = partitions()
    on_gpus = [rule for rule, resources in delivered["set-resources"].items() if "gpu" in resources]
    of_rules = {rule: {PARTITION: with_gpus} for rule in on_gpus} if with_gpus else {}
    return {"default-resources": {PARTITION: usual}, "set-resources": of_rules}


def outdated_site() -> str | None:
    """What to say when the complete profile was made from another profile than the present one; None otherwise."""
    if not COMPLETE.is_file() or not DELIVERED.is_file():
        return None
    with COMPLETE.open(encoding="utf-8") as stream:
        if digest_file(DELIVERED) in stream.readline():
            return None
    return f"{DELIVERED} has changed since {COMPLETE} was made from it. Next: `phrasemt slurm`"
