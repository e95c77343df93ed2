"""`phrasemt export`: put a trained system into one folder, with everything that it needs on another machine."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from phrasemt import __version__
from phrasemt.verbs._system import add_study_option, add_training, chosen_training


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser(
        "export",
        help="put a trained system into one folder for other machines",
        description="Write a folder with weights, vocabularies, subwords, settings, the study, checksums, a model card "
        "and, for a system that reads parses, its parser. `phrasemt translate --model FOLDER` translates with it.",
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="new folder")
    add_study_option(parser)
    add_training(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Export. Raises PhrasemtError for a folder that exists and for a system that is not trained."""
    from phrasemt.paper.model_card import model_card
    from phrasemt.search.model_folder import write_model_folder

    chosen = chosen_training(options)
    place = (chosen.study, chosen.dataset, chosen.system, chosen.seed)
    about = {
        "phrasemt": __version__,
        "study": chosen.study.study,
        "dataset": chosen.dataset,
        "system": chosen.system,
        "seed": chosen.seed,
    }
    texts = {"README.md": model_card(*place), "study.json": chosen.study.model_dump_json(indent=1) + "\n"}
    write_model_folder(options.folder, chosen.files(), about, texts)
    print(f"{options.folder}: try it with `echo TEXT | phrasemt translate --model {options.folder}`")
