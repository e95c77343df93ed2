"""All kinds of files (phrasemt/artefacts/artefact.py), by name."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
from pathlib import Path

from phrasemt.artefacts.artefact import Artefact, Pattern, of_dataset, of_study

# Kinds of files that need no code here: their stages read and write them, or another program does.
_PLAIN_KINDS = {
    # your own file, which may lie anywhere; where a study names no such file, the workflow makes one
    "UserFile": Pattern("{file}"),
    # one side of a split before cleaning, when the study divides a corpus itself or uses the generator
    "RawText": of_dataset("raw/{split}.{language}"),
    "RawTrees": of_dataset("raw/{split}.trees"),  # bracketed trees of the sources of a generated split
    "RawChunks": of_dataset("raw/{split}.chunks.{language}"),  # chunks of one side of a generated split
    "CleanText": of_dataset("corpus/{split}.{language}"),  # one side of a cleaned split, one sentence a line
    "Codes": of_dataset("subwords/codes.bpe"),  # the merges of byte pair encoding, in the format of subword-nmt
    # how often each subword stands in the training text, for the threshold of the vocabulary (subword-nmt)
    "SubwordCounts": of_dataset("subwords/counts.{language}"),
    # the best translations of a test set, detokenised
    "TranslatedText": of_dataset("translations/{system}/{seed}/{split}.txt"),
    "Truecaser": of_dataset("moses/truecaser.{language}"),  # the truecasing model of one language
    "MosesText": of_dataset("moses/{phrase_model}/text/{split}.{language}"),  # one side of a split as Moses reads it
    # the n-gram model of the target language (KenLM)
    "LanguageModel": of_dataset("moses/{phrase_model}/language_model.trie"),
    "AlignedText": of_dataset("moses/{phrase_model}/aligned.{language}"),  # one side of the pairs that could be aligned
    "Alignment": of_dataset("moses/{phrase_model}/alignment"),  # the word alignment of the training pairs
    "PhraseTable": of_dataset("moses/{phrase_model}/phrase-table.gz"),  # the phrase table
    "ReorderingTable": of_dataset("moses/{phrase_model}/reordering-table.gz"),  # the lexicalised reordering table
    "TuningState": of_dataset("models/{system}/{seed}/tuning"),  # the folder in which a tuner goes on after a stop
    "Vectors": of_study("annotators/{annotator}/vectors.pt"),  # word vectors of a trained parser or chunker
    "Tagger": of_study("annotators/{annotator}/tagger.pt"),  # the tagger of a trained parser
    "ConstituencyParser": of_study("annotators/{annotator}/constituency.pt"),  # a trained constituency parser
    "Chunker": of_study("annotators/{annotator}/chunker.pt"),  # a trained chunker
    # trees that the user gives, by the keys of their sentences (phrasemt/syntax/given_annotators.py)
    "GivenTrees": of_study("annotators/{annotator}/trees.arrow"),
    # chunk tags of the sentences of a split, one file for each job (phrasemt/syntax/annotations.py)
    "Tags": of_dataset("tags/{annotator}/{split}.{job}.arrow"),
    # the folder of the cache, whose store keeps parses and tags of sentences for all studies (docs/syntax.md)
    "ParseStore": Pattern("{cache}"),
    "MarkdownTable": of_study("table.md"),  # the table in Markdown
    "CsvTable": of_study("table.csv"),  # all numbers of the table, one a row
    "LatexTable": of_study("table.tex"),  # the table in LaTeX
    "Report": of_study("report.html"),  # one page about a study, which needs no other file and no network
}


@functools.cache
def kinds() -> dict[str, type[Artefact]]:
    """The classes of all kinds by name. The first call imports NumPy and Arrow, which some of them read with."""
    modules = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    classes = [value for module in modules for value in vars(module).values() if isinstance(value, type)]
    found = {one.__name__: one for one in classes if issubclass(one, Artefact) and hasattr(one, "pattern")}
    return found | {name: type(name, (Artefact,), {}, pattern=pattern) for name, pattern in _PLAIN_KINDS.items()}


@functools.cache
def by_attribute() -> dict[str, type[Artefact]]:
    """The classes by their name in rules: TrainingRecord is training_record."""
    return {re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower(): kind for name, kind in kinds().items()}


def kind_of(path: Path) -> type[Artefact]:
    """The kind of a file by its path: the one whose pattern has the most letters of its own."""
    return next((kind for kind in _most_letters_first() if kind.pattern.fits(path)), kinds()["UserFile"])


@functools.cache
def _most_letters_first() -> list[type[Artefact]]:
    return sorted(kinds().values(), key=lambda kind: len(kind.pattern.glob), reverse=True)
