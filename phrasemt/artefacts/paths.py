"""Where all files lie: an attribute of `Paths` for each kind of file. A kind that is read by code here has a class of
the same name, such as `Rows` for `Paths.rows`.

resources/<corpus>/...                           corpora as fetched, and their texts
results/<study>/<dataset>.<source>-<target>/     everything about one data set
results/<study>/annotators/<annotator>/          trained parsers and chunkers, with their scores
results/<study>/table.*, report.html
logs/<study>/<stage>/<job>.log, benchmarks/<study>/<stage>/<job>.tsv
"""

from __future__ import annotations

from pathlib import Path

from phrasemt.artefacts.artefact import Pattern
from phrasemt.study.schema import Study

RESULTS, LOGS, BENCHMARKS = Path("results"), Path("logs"), Path("benchmarks")


class Kind:
    """The pattern of a kind of file: that of all such files as an attribute of `Paths`, or of those of an instance."""

    def __init__(self, pattern: str) -> None:
        self.pattern = Pattern(pattern)

    def __get__(self, paths: Paths | None, owner: type[Paths]) -> Pattern:
        return self.pattern if paths is None else self.pattern.within(**paths.names)


def _of_study(path: str) -> Kind:
    return Kind(f"{RESULTS}/{{study}}/{path}")


def _of_dataset(path: str) -> Kind:
    """A file of a data set of a study.

    The folder names the languages, because the two sides of a text are outputs of one rule and Snakemake wants the same
    wildcards in all outputs of a rule. The folder of a monolingual data set repeats its language, so that the paths of
    both sides are the same.
    """
    return _of_study(f"{{dataset}}.{{source}}-{{target}}/{path}")


def _of_system(path: str) -> Kind:
    return _of_dataset(f"models/{{system}}/{{seed}}/{path}")


def _of_phrase_model(path: str) -> Kind:
    return _of_dataset(f"moses/{{phrase_model}}/{path}")


def _of_annotator(path: str) -> Kind:
    return _of_study(f"annotators/{{annotator}}/{path}")


class Paths:
    """All kinds of files. `Paths.tokens` is the pattern of all tokens, `Paths("demo").tokens` of those of a study.

    names: of the data set and its languages; those that are not given are wildcards still.
    """

    # Your own file, which may lie anywhere; where a study names no such file, the workflow makes one.
    user_file = Kind("{file}")
    original_file = Kind("resources/{corpus}/original/{file}")  # as fetched, with verified checksum
    registered_text = Kind("resources/{corpus}/{part}.{language}")  # one side of a part, one sentence a line
    # One side of a split before cleaning, when the study divides a corpus itself or uses the generator.
    raw_text = _of_dataset("raw/{split}.{language}")
    raw_trees = _of_dataset("raw/{split}.trees")  # bracketed trees of the sources of a generated split
    raw_chunks = _of_dataset("raw/{split}.chunks.{language}")  # chunks of one side of a generated split
    contrasts = _of_dataset("raw/{split}.contrasts.tsv")
    clean_text = _of_dataset("corpus/{split}.{language}")  # one side of a cleaned split, one sentence a line
    rows = _of_dataset("corpus/{split}.rows")
    dropped_pairs = _of_dataset("corpus/{split}.dropped.tsv")
    compared_splits = _of_dataset("splits.json")

    tokens = _of_dataset("tokens/{split}.{language}")  # one side of a split, tokens with spaces between
    round_trip = _of_dataset("tokens/{split}.{language}.round_trip.json")
    codes = _of_dataset("subwords/codes.bpe")  # the merges of byte pair encoding, in the format of subword-nmt
    # How often each subword stands in the training text, for the threshold of the vocabulary (subword-nmt).
    subword_counts = _of_dataset("subwords/counts.{language}")
    subwords = _of_dataset("subwords/{split}.{language}")  # one side of a split, subwords with spaces between
    vocabulary = _of_dataset("vocabulary.{language}.tsv")
    examples = _of_dataset("examples/{split}.arrow")

    stanza_file = Kind("resources/stanza/{language}/{file}")  # a published model file of Stanza
    card = _of_annotator("annotator.json")
    vectors = _of_annotator("vectors.pt")  # word vectors of a trained parser or chunker
    tagger = _of_annotator("tagger.pt")  # of a trained parser
    tagger_scores = _of_annotator("tagger.json")
    constituency_parser = _of_annotator("constituency.pt")
    chunker = _of_annotator("chunker.pt")
    # Trees that the user gives, by the keys of their sentences (phrasemt/syntax/given_annotators.py).
    given_trees = _of_annotator("trees.arrow")
    # Of the sentences of a split, one file for each job (phrasemt/syntax/annotations.py).
    parses = _of_dataset("parses/{annotator}/{split}.{job}.arrow")
    tags = _of_dataset("tags/{annotator}/{split}.{job}.arrow")
    # The folder of the cache, whose store keeps parses and tags of sentences for all studies (docs/syntax.md).
    parse_store = Kind("{cache}")
    phrase_columns = _of_dataset("phrases/{segmenter}/{split}.arrow")
    phrase_statistics = _of_dataset("phrases/{segmenter}/{split}.json")
    chunk_columns = _of_dataset("chunks/{split}.arrow")
    chunk_statistics = _of_dataset("chunks/{split}.json")

    model = _of_dataset("models/{system}/{seed}")  # the folder of a training
    training_record = _of_system("training.json")
    training_state = _of_system("state")  # the folder in which a training goes on after a stop
    weights = _of_system("averaged.safetensors")
    average_scores = _of_system("averaged.json")
    translations = _of_dataset("translations/{system}/{seed}/{split}.jsonl")
    translated_tokens = _of_dataset("translations/{system}/{seed}/{split}.tok")
    translated_text = _of_dataset("translations/{system}/{seed}/{split}.txt")  # the best translations, detokenised
    contrast_accuracy = _of_dataset("contrasts/{system}/{seed}/{split}.json")
    perplexity_scores = _of_dataset("perplexities/{system}/{seed}.json")
    chunk_accuracies = _of_dataset("chunk_scores/{system}/{seed}.json")
    attention_weights = _of_dataset("attention/{system}/{seed}/{split}.arrow")
    attention_analysis = _of_dataset("attention/{system}/{seed}/{split}.json")

    truecaser = _of_dataset("moses/truecaser.{language}")  # the truecasing model of one language
    moses_text = _of_phrase_model("text/{split}.{language}")  # one side of a split as Moses reads it
    language_model = _of_phrase_model("language_model.trie")  # the n-gram model of the target language (KenLM)
    aligned_text = _of_phrase_model("aligned.{language}")  # one side of the pairs that could be aligned
    alignment = _of_phrase_model("alignment")  # the word alignment of the training pairs
    phrase_table = _of_phrase_model("phrase-table.gz")
    reordering_table = _of_phrase_model("reordering-table.gz")  # lexicalised
    tuning_state = _of_system("tuning")  # the folder in which a tuner goes on after a stop
    tuned_weights = _of_system("weights.json")

    system_scores = _of_dataset("scores/{system}/{seed}.json")
    metric_scores = _of_dataset("metrics/{metric}/{system}/{seed}.json")
    seed_variation = _of_dataset("seed_variation.json")
    comparison = _of_dataset("comparisons/{system}.json")
    table = _of_study("table.json")
    markdown_table = _of_study("table.md")
    csv_table = _of_study("table.csv")  # all numbers of the table, one a row
    latex_table = _of_study("table.tex")
    report = _of_study("report.html")  # one page about a study, which needs no other file and no network

    def __init__(self, study: str, **names: str) -> None:
        self.study = study
        self.names = {"study": study, **names}
        self.results, self.logs, self.benchmarks = (Pattern(folder / study) for folder in (RESULTS, LOGS, BENCHMARKS))

    @classmethod
    def of(cls, study: Study, dataset: str) -> Paths:
        """The paths of one data set of a study; `language` and the like are wildcards still."""
        source, target = study.datasets[dataset].languages
        return cls(study.study, dataset=dataset, source=source, target=target)

    @classmethod
    def kinds(cls) -> dict[str, Pattern]:
        """The patterns of all kinds, by name."""
        return {name: kind.pattern for name, kind in vars(cls).items() if isinstance(kind, Kind)}
