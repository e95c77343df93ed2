"""`phrasemt score`: score translations of any origin in all conventions, and test the difference of two files."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

from phrasemt.artefacts.scores import MetricComparison, Scores
from phrasemt.commands._arguments import add_dataset, chosen_dataset
from phrasemt.commands._scores import ScoreRow, add_samples, read_columns, score_table
from phrasemt.decoding.outside import both_forms
from phrasemt.errors import PhrasemtError
from phrasemt.files.preprocessing import Preprocessing, check_same_preprocessing
from phrasemt.files.system import digest_file, one_file
from phrasemt.scoring.bleu import Sides, check_side, score_texts, warn_of_leftovers
from phrasemt.scoring.significance import compare_runs, resample
from phrasemt.study.schema import SEED
from phrasemt.study.tokenization import Tokenizer, problem_of_language

log = logging.getLogger("phrasemt.score")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    # As argparse would write it, the translations would follow the references and be taken for more of them.
    parser.usage = "%(prog)s FILE [FILE] --references FILE [FILE ...] (--language CODE | --study STUDY) [options]"
    parser.description = (
        "Score translations of any program in the conventions of the project, with signatures. With a "
        "second file, test the difference, second minus first. Files are UTF-8, one sentence per line."
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="translations: one file, or two to compare")
    parser.add_argument(
        "--references", nargs="+", required=True, type=Path, metavar="FILE", help="one or more references"
    )
    origin = parser.add_mutually_exclusive_group(required=True)
    origin.add_argument("--language", metavar="CODE", help="language of the translations, e.g. de")
    origin.add_argument("--study", type=Path, metavar="STUDY", help="study file whose tokens are used")
    add_dataset(parser)
    parser.add_argument("--tokenised", action="store_true", help="the translations are tokens and not raw text")
    parser.add_argument("--tokenised-references", action="store_true", help="the references are tokens")
    add_samples(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> None:
    """Print scores with signatures, and for two files their difference with interval and p-values.

    Raises PhrasemtError for more than two files, and DataError for unequal numbers of lines, for lines that are no
    plain sentences, and for translations and references that are not prepared alike.
    """
    if len(options.files) > 2:
        raise PhrasemtError("too many translations", where=options.files[2], expected="one file, or two to compare")
    given = [(path, path) for path in (*options.files, *options.references)]
    for first, second in one_file(given):
        raise PhrasemtError("the same file twice", where=first, found=second, next_step="give another file")
    tokenizer = _tokenizer(options)
    scores = {str(path): _score(path, tokenizer, options) for path in options.files}
    comparison: Mapping[str, MetricComparison] = {}
    if len(scores) == 2:
        comparison = compare_runs(*(resample([one], samples=options.samples, seed=SEED) for one in scores.values()))
    lines = _json(scores, comparison) if options.json else _lines(scores, comparison, options.samples)
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def _tokenizer(options: argparse.Namespace) -> Tokenizer:
    """The tokeniser of the translations. Raises PhrasemtError for options without effect."""
    if options.study is None:
        if options.dataset is not None:
            raise PhrasemtError("a data set belongs to a study", where="--dataset", next_step="give --study, too")
        if problem := problem_of_language(options.language):
            raise PhrasemtError(problem, where="--language")
        try:
            return Tokenizer.for_language(options.language)
        except ValueError as error:
            raise PhrasemtError(str(error), where="--language", next_step="name a study with --study") from None
    study, name = chosen_dataset(options)
    return study.datasets[name].tokenizer("target")


def _score(path: Path, tokenizer: Tokenizer, options: argparse.Namespace) -> Scores:
    translated, *references = read_columns(path, *options.references)
    for file, side in zip((path, *options.references), (translated, *references), strict=True):
        Preprocessing.of(side).check_plain_text(file)
    of_translation = both_forms(tokenizer, tokenised=options.tokenised)
    of_reference = both_forms(tokenizer, tokenised=options.tokenised_references)
    tokens, text = (list(side) for side in zip(*map(of_translation, translated), strict=True))
    reference_tokens, reference = zip(
        *(map(list, zip(*map(of_reference, side), strict=True)) for side in references), strict=True
    )
    files, texts = [path, *options.references], [text, *reference]
    prepared = list(map(check_side, files, [tokens, *reference_tokens], files, texts))
    check_same_preprocessing(dict(zip(map(str, files), prepared, strict=True)))
    for file, lines, found in zip(files, texts, prepared, strict=True):
        warn_of_leftovers(file, lines, found)
        if file != path and (blank := lines.count("")):
            log.warning("score: warning: %s: %d blank lines, which count as references of length 0", file, blank)
    digests = list(map(digest_file, options.references))
    tokenised_by = () if options.tokenised_references else ("sacremoses", "jieba")
    sides = Sides(
        tokens=tokens,
        text=text,
        reference_tokens=list(reference_tokens),
        reference=list(reference),
        digests={"tokens": digests, "text": digests},
        tokens_made_by={name: version(name) for name in tokenised_by},
    )
    return score_texts(sides, tokenizer)


def _lines(scores: Mapping[str, Scores], comparison: Mapping[str, MetricComparison], samples: int) -> Iterator[str]:
    first, *others = scores.values()
    yield f"{first.sentences:,} sentences, {len(first.references['text'])} references"
    yield from score_table(
        ScoreRow(
            metric=metric,
            system=name,
            score=of_file.metrics[metric].score,
            sentences=first.sentences,
            tested=tested.get(metric),
            p_value=tested[metric].p_of_sentences if tested else None,
        )
        for metric in first.metrics
        for (name, of_file), tested in zip(scores.items(), ({}, comparison), strict=False)
    )
    yield ""
    yield from (f"{name}: {metric.signature}" for name, metric in first.metrics.items())
    if others:
        yield (
            f"two-sided paired bootstrap, {samples:,} samples, seed {SEED}: "
            "it covers the choice of sentences and not the randomness of training"
        )


def _json(scores: Mapping[str, Scores], comparison: Mapping[str, MetricComparison]) -> Iterator[str]:
    files = {path: of_file.model_dump(exclude={"statistics"}) for path, of_file in scores.items()}
    tests = {name: metric.model_dump(exclude_none=True) for name, metric in comparison.items()}
    yield json.dumps({"files": files, **({"comparison": tests} if tests else {})}, indent=1)
