"""The stages of the workflow: one table that the command line, the rules and the tests read."""

from phrasemt.stages import corpus, decoding, moses, report, scoring, subwords, syntax, training
from phrasemt.stages.stage import Stage

_IN_ORDER = (corpus, subwords, syntax, training, decoding, moses, scoring, report)


def _declared() -> dict[str, type[Stage]]:
    """The stages of each module, by name; classes that others are made from are none."""
    found = [one for module in _IN_ORDER for one in vars(module).values() if isinstance(one, type)]
    stages = [one for one in found if issubclass(one, Stage) and not one.__subclasses__()]
    return {stage.stage_name(): stage for stage in stages}


# By name, about in the order of the work.
STAGES = _declared()
