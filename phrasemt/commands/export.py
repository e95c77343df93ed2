"""`phrasemt export`: put a trained system into one folder, with everything that it needs on another machine."""

from __future__ import annotations

import argparse

from phrasemt import __version__
from phrasemt.commands._arguments import ChosenTraining, Output, add_training, chosen_trainings
from phrasemt.commands._scores import read_scores
from phrasemt.models.ctranslate2_export import write_ctranslate2_folder
from phrasemt.workflow.changes import changes_since
from phrasemt.workflow.trained_system import SystemSettings, write_model_folder

_HOW = """\
```bash
phrasemt translate --model . < TEXT
```
"""
_HOW_CTRANSLATE2 = """\
With the packages phrasemt and ctranslate2, in this folder, `python translate.py < TEXT` translates with these lines in
`translate.py`. A study with `length_penalty_form: length` has the same translations; CTranslate2 has no other form.

```python
import sys
from pathlib import Path
import ctranslate2
from phrasemt.study.tokenization import Tokenizer
from phrasemt.text.subwords import join_subwords, subword_cutter
from phrasemt.text.tokenize import line_detokenizer, line_tokenizer

tokenize, detokenize = line_tokenizer({source!r}), line_detokenizer({target!r})
segment = {segment}
sources = [segment(tokenize(" ".join(line.split()))).split() for line in sys.stdin]
search = {{"beam_size": {beam}, "length_penalty": {alpha}, "min_decoding_length": 0, "max_batch_size": 32}}
for result in ctranslate2.Translator(".").translate_batch(sources, **search):
    print(detokenize(join_subwords(" ".join(result.hypotheses[0]))))
```
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write a folder with weights, vocabularies, subwords, settings, the study, checksums "
        "and, for a system that reads parses, its parser. `phrasemt translate --model FOLDER` translates with it."
    )
    parser.add_argument("folder", type=Output, metavar="FOLDER", help="new folder")
    add_training(parser)
    parser.add_argument(
        "--format",
        choices=("phrasemt", "ctranslate2"),
        default="phrasemt",
        help="ctranslate2: for the engine CTranslate2, plain Transformers only (default: %(default)s)",
    )


def run(options: argparse.Namespace) -> None:
    """Export.

    Raises PhrasemtError if the folder exists, or the system is not trained or not for CTranslate2; MismatchError if the
    results of the study were made with other settings.
    """
    (chosen,) = chosen_trainings(options)
    changes_since(chosen.study, thorough=True).refuse()
    system = chosen.files()
    study = chosen.study
    texts = {"study.json": study.model_dump_json(indent=1) + "\n", "README.md": readme(chosen, options.format)}
    if options.format == "ctranslate2":
        write_ctranslate2_folder(options.folder, system, texts)
        print(f"{options.folder}: written for CTranslate2")
        return
    about = {"study": study.study, "dataset": chosen.dataset, "system": chosen.system, "seed": chosen.seed}
    write_model_folder(options.folder, system, {"phrasemt": __version__, **about}, texts)
    print(f"{options.folder}: written. Next: `phrasemt translate --model {options.folder} < TEXT`")


def readme(chosen: ChosenTraining, form: str) -> str:
    """What the folder holds: system, languages, data, scores on the test sets, and how to translate with it."""
    study, dataset = chosen.study, chosen.study.datasets[chosen.dataset]
    lines = [
        f"# {chosen.system}, {' to '.join(dataset.languages)}",
        "",
        f"System {chosen.system} of study {study.study}, trained on data set {chosen.dataset}, seed {chosen.seed}.",
        "`study.json` has all settings and texts.",
        "",
        "| test set | metric | score | signature |",
        "|---|---|---|---|",
    ]
    for scores in read_scores(study, chosen.dataset):
        if (scores.system, scores.seed) == (chosen.system, chosen.seed):
            for test_set, of_test_set in scores.test_sets.items():
                for name, metric in of_test_set.metrics.items():
                    lines.append(f"| {test_set} | {name} | {metric.score:.2f} | `{metric.signature}` |")
    if form != "ctranslate2":
        return "\n".join([*lines, "", _HOW])
    settings = SystemSettings.of_study(study, chosen.dataset, chosen.system)
    cutter = f'subword_cutter(Path("codes.bpe"), Path("source_counts.txt"), {settings.vocabulary_threshold})'
    how = _HOW_CTRANSLATE2.format(
        source=settings.source_tokenizer,
        target=settings.target_tokenizer,
        segment="str" if settings.vocabulary_threshold is None else cutter,
        beam=settings.decoding.beam,
        alpha=settings.decoding.length_penalty,
    )
    return "\n".join([*lines, "", how])
