"""The stages of the workflow: one table that the command line, the rules and the tests read."""

from phrasemt.stages import corpus, decoding, moses, report, scoring, subwords, syntax, training
from phrasemt.stages.stage import Stage

_IN_ORDER = (corpus, subwords, syntax, training, decoding, moses, scoring, report)


def _declared() -> dict[str, type[Stage]]:
    """The stages of each module, by name; classes that others are made from are none."""
    classes = [member for module in _IN_ORDER for member in vars(module).values() if isinstance(member, type)]
    stages = [member for member in classes if issubclass(member, Stage) and not member.__subclasses__()]
    return {stage.stage_name(): stage for stage in stages}


# By name, about in the order of the work.
STAGES = _declared()
