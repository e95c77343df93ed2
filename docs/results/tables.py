"""Writes the tables and figures of trainings into the documents (`DOCUMENTS`): `make tables`.

A line `<!-- table: NAME -->` stands before each of these tables. `TABLES` makes most of them; docs/results/templates.md
has the others, with values in braces (`VALUES`). A test compares all tables with what is made here.

    .venv/bin/python docs/results/tables.py SYSTEM OTHER        # the difference of two systems, as in docs/results.md

Runs have keys: STUDY/SYSTEM stands for all seeds of a system, STUDY/SYSTEM.SEED for one, and STUDY/DATASET/SYSTEM tells
data sets apart. Tests of differences are those of `phrasemt compare_systems`, with 1,000 samples: where a side has
several seeds they draw trainings and sentences, else sentences. Marks are corrected for the systems that `COMPARED`
lists together (Holm).
"""

from __future__ import annotations

import functools
import math
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence

from runs import FOLDER, Run, TestSet, read_runs

from phrasemt.artefacts.scores import MetricComparison
from phrasemt.report.figures import Series, draw_curves, svg_file
from phrasemt.scoring.significance import compare_scores, holm

DOCS = FOLDER.parent
DOCUMENTS = [
    DOCS.parent / "README.md",
    DOCS / "findings.md",
    DOCS / "results.md",
    *sorted((DOCS / "papers").glob("*.md")),
]
_TABLE = re.compile(r"<!-- table: (\S+) -->\n((?:\|.*\n)+)")

_METRICS = ("bleu_tok", "bleu_tok_compound_split", "bleu_detok", "chrf2", "ter")

Table = list[list[str]]
Column = tuple[str, Callable[[str], str]]

# The names of systems, by study.
NAMES = {
    "demo": {"base": "Transformer", "pr": "phrases of n tokens", "parse": "phrases of the parser"},
    "demo-families": {
        "ng-base": "Transformer (`ng-base`)",
        "ng-wide": "Transformer, feed-forward width 1,468",
        "ng-shaw": "relative positions (`ng-shaw`)",
        "ng-2": "phrasal attention 1-2",
        "ng-3": "phrasal attention 1-2-3",
        "zh-dl4mt": "dl4mt",
        "zh-dl4mt-2": "dl4mt, two decoder layers",
        "zh-paper": "bi-scale, as printed (`zh-paper`)",
        "zh-context": "bi-scale, words read the context of their chunk (`zh-context`)",
        "zh-word": "bi-scale, attention at words (`zh-word`)",
        "zh-code": "bi-scale as in the authors' program (`zh-code`)",
    },
    "demo-phrases": {
        "base": "Transformer",
        "wide": "Transformer, feed-forward width 1,440 (`wide`)",
        "network": "+Max+Attn+TA without phrases (`network`)",
        "code": "+Max+Attn+TA as in the authors' program (`xu-code`)",
        "max": "+Max",
        "pr": "+Max+Attn+TA",
        "parse": "with phrases of the parser",
        "random": "with phrases of random trees",
        "right": "with phrases of right-branching trees",
        "shuffled": "with the parser's phrases in random order",
    },
    "multi30k-chunks": {
        "dl4mt": "dl4mt",
        "biscale": "bi-scale, as printed (`zh-paper`)",
        "biscale-code": "bi-scale as in the authors' program (`zh-code`)",
    },
    "multi30k-moses": {"untuned": "Moses, untuned", "tuned": "Moses, tuned"},
    "multi30k-systems": {
        "base": "Transformer",
        "wide": "Transformer of that size (`wide`)",
        "relative": "relative positions",
        "ngrams": "phrasal attention 1-2",
        "ngrams-3": "phrasal attention 1-2-3",
        "network": "+Max+Attn+TA without phrases (`network`)",
        "max": "+Max",
        "pr": "+Max+Attn+TA",
        "parse": "with phrases of the parser",
        "pr-drawn-w3": "+Max+Attn+TA, W3 drawn (before X23)",
        "pr-drawn-w3-fast": "W3 drawn, W1 and W3 at four times the rate",
        "pr-dropout": "W3 drawn, `combine_dropout: 0.3`",
        "pr-fast-w3": "+Max+Attn+TA, W1 and W3 at four times the rate",
        "pr-no-phrases": "no phrases: result of Eq. (7) set to 0",
    },
    "multi30k-phrases": {
        "random": "with phrases of random trees",
        "right": "with phrases of right-branching trees",
        "shuffled": "with the parser's phrases in random order",
    },
    "tatoeba-lm": {"plain": "Transformer", "relative": "relative positions", "phrasal": "phrasal attention 1-2"},
}


def _keys(study: str, systems: str) -> list[str]:
    return [f"{study}/{system}" for system in systems.split()]


def _family(study: str, compared: dict[str, str]) -> dict[str, str]:
    """Systems with their baselines, given the systems by baseline."""
    return {key: baseline for baseline, systems in compared.items() for key in _keys(study, systems)}


# The systems that are tested together, each with its baseline.
COMPARED = [
    _family("demo", {"demo/base": "pr parse"}),
    _family(
        "demo-families",
        {
            "demo-families/ng-base": "ng-wide ng-shaw ng-2 ng-3",
            "demo-families/zh-dl4mt": "zh-dl4mt-2 zh-paper zh-context zh-word zh-code",
        },
    ),
    _family("demo-phrases", {"demo-phrases/base": "wide network code max pr parse random right shuffled"}),
    _family("multi30k-chunks", {"multi30k-chunks/dl4mt": "biscale biscale-code"}),
    _family("multi30k-systems", {"multi30k-systems/base": "wide relative ngrams ngrams-3 network max pr parse"}),
    _family("multi30k-phrases", {"multi30k-systems/base": "random right shuffled"}),
]


@functools.cache
def runs(key: str) -> tuple[Run, ...]:
    """The runs of a key, by seed."""
    study, *dataset, name = key.split("/")
    system, _, seed = name.partition(".")
    found = tuple(
        run
        for run in _of_study(study)
        if run.system == system and seed in ("", str(run.seed)) and dataset in ([], [run.dataset])
    )
    assert len({run.dataset for run in found}) == 1, key
    return found


@functools.cache
def _of_study(study: str) -> list[Run]:
    return read_runs(study)


def parts(key: str) -> list[TestSet]:
    """What the runs have on their test set; the studies have one."""
    return [part for run in runs(key) for part in run.test_sets.values()]


def family_of(system: str) -> tuple[dict[str, str], str]:
    """The systems with which a system is tested, with their baselines, and the baseline of the system.

    The key of one seed has those of this seed.
    """
    key, dot, seed = system.partition(".")
    for compared in COMPARED:
        if key in compared:
            return {one + dot + seed: other + dot + seed for one, other in compared.items()}, compared[key] + dot + seed
    raise KeyError(system)


@functools.cache
def comparison(system: str, baseline: str) -> dict[str, MetricComparison]:
    """The test of a difference, for each metric of the tables."""
    sides = [[part.scores for part in parts(key)] for key in (baseline, system)]
    for side in sides:
        for place, scores in enumerate(side):
            printed = {metric: scores.statistics[metric] for metric in _METRICS if metric in scores.statistics}
            side[place] = scores.model_copy(update={"statistics": printed})
    return compare_scores(*sides, samples=1000, seed=12345)


# Values as text


def name(key: str) -> str:
    """The name of a system, with its seed where the key has one."""
    study, *_, system = key.split("/")
    system, _, seed = system.partition(".")
    return NAMES[study][system] + (f", seed {seed}" if seed else "")


def mean(values: Sequence[float], decimals: int = 2) -> str:
    """The mean over seeds, with the sample standard deviation."""
    deviation = f" ± {statistics.stdev(values):.{decimals}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{decimals}f}{deviation}"


def scores_of(key: str, metric: str) -> list[float]:
    return [part.scores.metrics[metric].score for part in parts(key)]


def score(key: str, metric: str = "bleu_tok") -> str:
    return mean(scores_of(key, metric))


def by_seed(key: str) -> str:
    """BLEU tok with that of each seed."""
    values = scores_of(key, "bleu_tok")
    return mean(values) + (f" ({', '.join(f'{value:.2f}' for value in values)})" if len(values) > 1 else "")


def gain(system: str, metric: str = "bleu_tok", other: str = "") -> str:
    """The difference to another system, or to the baseline; a difference in BLEU to the baseline has a mark."""
    mark = ""
    if not other:
        family, other = family_of(system)
        if metric.startswith("bleu"):
            p_value = _corrected(tuple(family.items()), metric)[system]
            mark = "‡" if p_value < 0.01 else "†" if p_value < 0.05 else ""
    return f"{comparison(system, other)[metric].difference.value:+.2f}{mark}"


@functools.cache
def _corrected(family: tuple[tuple[str, str], ...], metric: str) -> dict[str, float]:
    p_values = [comparison(system, other)[metric].p_values.decisive for system, other in family]
    return dict(zip((system for system, _ in family), holm(p_values), strict=True))


def interval(system: str, metric: str = "bleu_tok", other: str = "") -> str:
    """The 95 % interval of a difference."""
    found = comparison(system, other or family_of(system)[1])[metric]
    ends = (found.over_seeds or found).difference
    return f"{ends.low:.2f} to {ends.high:.2f}"


def p(system: str, metric: str = "bleu_tok", other: str = "") -> str:
    """The p-value of a difference, not corrected; with three decimals below 0.1."""
    value = comparison(system, other or family_of(system)[1])[metric].p_values.decisive
    return "below 0.001" if value < 0.001 else f"{value:.3f}" if value < 0.0995 else f"{value:.2f}"


def dev(key: str, update: str) -> str:
    """Dev BLEU and dev perplexity after an update, the means over seeds; language models have no BLEU."""
    return _dev(runs(key), int(update))


def _dev(runs: Sequence[Run], update: int) -> str:
    columns = [run.evaluations for run in runs]
    if update not in columns[0]["update"]:
        return ""  # stopped before
    place = columns[0]["update"].index(update)
    measured = {"dev_bleu": 1, "dev_perplexity": 2}
    return ", ".join(
        f"{statistics.mean(values[name][place] for values in columns):.{decimals}f}"
        for name, decimals in measured.items()
        if name in columns[0]
    )


def right(key: str, low: str = "") -> str:
    """Contrastive pairs decided right, in percent: all, or those of the group of distances that begins at `low`."""
    percent = []
    for part in parts(key):
        (kind,) = part.contrasts
        (group,) = [group for group in kind["by_distance"] if str(group["low"]) == low] if low else [kind]
        percent.append(100 * group["right"] / group["pairs"])
    return mean(percent, 1)


def boundaries(key: str) -> str:
    """Boundaries of chunks decided right, in percent."""
    (part,) = parts(key)
    return f"{100 * part.chunks['boundary_acc']:.1f}"


def perplexity(key: str) -> str:
    """The perplexity of a language model per word on the test set; the end of a sentence counts as a word."""
    return f"{_perplexity(key):.2f}"


def to_transformer(key: str) -> str:
    """The change of the perplexity per word to that of the Transformer."""
    plain = "/".join([key.split("/")[0], "plain"])
    return "" if key == plain else f"{100 * (_perplexity(key) / _perplexity(plain) - 1):+.1f} %"


def _perplexity(key: str, unit: str = "words") -> float:
    (part,) = parts(key)
    ends = part.perplexity["sentences"] if unit == "words" else 0  # the tokens hold them
    return math.exp(part.perplexity["nll"] / (part.perplexity[unit] + ends))


VALUES: dict[str, Callable[..., str]] = {
    one.__name__: one for one in (boundaries, dev, gain, interval, p, perplexity, right, score, to_transformer)
}


# Kinds of tables


def of_systems(first: str, keys: Iterable[str], columns: Sequence[Column]) -> Table:
    """A row for each key. first: the heading of the names."""
    return [[first, *(heading for heading, _ in columns)]] + [
        [name(key), *(cell(key) for _, cell in columns)] for key in keys
    ]


def _mean_of(metric: str) -> Callable[[str], str]:
    return lambda key: f"{statistics.mean(scores_of(key, metric)):.2f}"


def _difference(key: str) -> str:
    try:
        return f"{gain(key)}, {interval(key)}, {p(key)}"
    except KeyError:  # a baseline
        return ""


PARAMETERS: Column = "parameters", lambda key: f"{runs(key)[0].record['parameters']:,}"
BLEU: Column = "BLEU tok", by_seed
DIFFERENCE: Column = "Δ, 95 % interval, p", _difference
SPLIT: Column = "BLEU split", _mean_of("bleu_tok_compound_split")
DETOKENISED: Column = "BLEU detok", _mean_of("bleu_detok")
CHRF: Column = "chrF2", _mean_of("chrf2")
TER: Column = "TER", _mean_of("ter")
CONTRASTS: Column = "right of 886 contrastive pairs", lambda key: f"{right(key)} %"


def of_differences(pairs: Iterable[tuple[str, str]]) -> Table:
    """Differences of systems to others: (system, other)."""
    table = [["system", "to", "Δ BLEU tok, 95 % interval, p", "Δ chrF2, p", "Δ TER, p"]]
    for system, other in pairs:
        bleu = (
            f"{gain(system, 'bleu_tok', other)}, {interval(system, 'bleu_tok', other)}, {p(system, 'bleu_tok', other)}"
        )
        more = (f"{gain(system, metric, other)}, {p(system, metric, other)}" for metric in ("chrf2", "ter"))
        table.append([name(system), name(other), bleu, *more])
    return table


def of_evaluations(keys: Iterable[str], updates: Iterable[int], measured: str = "dev BLEU, dev perplexity") -> Table:
    """Evaluations on dev, a row for each run."""
    rows = [(key, run) for key in keys for run in runs(key)]
    seeds = len({run.seed for _, run in rows}) > 1
    table = [[f"{measured} after", *["seed"] * seeds, *(f"{update:,}" for update in updates)]]
    for key, run in rows:
        first = run is runs(key)[0]
        table.append(
            [name(key) if first else "", *[str(run.seed)] * seeds, *(_dev([run], update) for update in updates)]
        )
    return table


# Columns of evaluations with the dev perplexity when the results of some attentions are replaced by their means.
_WITHOUT = {
    "without phrases": "dev_perplexity_without_phrases",
    "without those of the encoder": "dev_perplexity_without_encoder_phrases",
    "of the decoder": "dev_perplexity_without_decoder_phrases",
    "without attention to source tokens": "dev_perplexity_without_source_attention",
}


def of_ablations(keys: Iterable[str]) -> Table:
    """How much a trained system needs its phrases, and the state of its networks; a row for each run, at the end."""
    table = [["", "seed", "dev perplexity", *_WITHOUT, "saturated units, at most", "signal / constant"]]
    for key in keys:
        for run in runs(key):
            last = {column: values[-1] for column, values in run.evaluations.items()}
            whole = last["dev_perplexity"]
            without = [_change(last[column], whole) if column in last else "" for column in _WITHOUT.values()]
            saturated = max(value for column, value in last.items() if column.endswith("_saturated"))
            signals = [column for column in last if column.endswith("_signal")]
            ratios = [last[column] / last[column.replace("_signal", "_constant")] for column in signals]
            states = [f"{100 * saturated:.1f} %", f"{min(ratios):.1f} to {max(ratios):.1f}"]
            table.append([name(key) if run is runs(key)[0] else "", str(run.seed), f"{whole:.2f}", *without, *states])
    return table


def _change(value: float, whole: float) -> str:
    return (
        f"{value:.2f} ({100 * (value / whole - 1):+.1f} %)"
        if value < 2 * whole
        else f"{value:.2f} ({value / whole:.1f} times)"
    )


def of_measurement(keys: Iterable[str], updates: Iterable[int], heading: str, column: str) -> Table:
    """One measurement of the evaluations on dev, by updates."""
    table = [[heading, *(f"{update:,}" for update in updates)]]
    for key in keys:
        (run,) = runs(key)
        values = dict(zip(run.evaluations["update"], run.evaluations[column], strict=True))
        table.append([name(key), *(f"{values[update]:.2f}" for update in updates)])
    return table


def of_ngram_attention(keys: Iterable[str]) -> Table:
    """The share of attention that goes to n-grams of two or more tokens, on dev, at the end."""
    kinds = {"encoder": "enc_self", "self-attention of the decoder": "dec_self", "attention to the source": "cross"}
    table = [["% of the attention to n-grams of two or more tokens", "seed", *kinds]]
    for key in keys:
        for run in runs(key):
            shares = [run.evaluations[f"dev_phrase_mass_{kind}"][-1] for kind in kinds.values()]
            table.append(
                [name(key) if run is runs(key)[0] else "", str(run.seed), *(f"{100 * share:.0f}" for share in shares)]
            )
    return table


def of_chunks(keys: Iterable[str]) -> Table:
    """How often decoders decide about chunks as the reference, given its words."""
    table = [
        ["% right, given the words", "boundaries", "always a boundary", "labels", "always the most frequent label"]
    ]
    for key in keys:
        (part,) = parts(key)
        sides = part.chunks, part.chunks["majority"]
        table.append(
            [name(key), *(f"{100 * side[what]:.1f}" for what in ("boundary_acc", "label_acc") for side in sides)]
        )
    return table


def of_moses(dataset: str, first: str, neural: str, columns: Sequence[Column]) -> Table:
    """Moses beside a neural system; differences to the untuned system."""
    untuned, tuned = f"multi30k-moses/{dataset}/untuned", f"multi30k-moses/{dataset}/tuned"

    def difference(key: str) -> str:
        values = (value(key, "bleu_tok", untuned) for value in (gain, interval, p))
        return ", ".join(values) if key.startswith(tuned) else ""

    keys = [neural, untuned, *(f"{tuned}.{seed}" for seed in (1, 2, 3)), tuned]
    return of_systems(first, keys, [BLEU, ("Δ to untuned, 95 % interval, p", difference), *columns])


# The tables and figures


_XU = _keys("multi30k-systems", "max pr parse") + _keys("multi30k-phrases", "random right shuffled")
_MULTI30K = [
    "multi30k-systems/base",
    *_XU,
    *_keys("multi30k-systems", "network pr-drawn-w3 wide ngrams ngrams-3 relative"),
]
_UPDATES = (900, 1200, 1500, 2100, 2700, 3300, 3900, 4500, 5100, 5400)
_CHUNKS = _keys("multi30k-chunks", "dl4mt biscale biscale-code")
_DEMO_PHRASES = _keys("demo-phrases", "base wide network code max pr parse random right shuffled")
_DEMO_FAMILIES = [f"demo-families/{system}" for system in NAMES["demo-families"]]
_LANGUAGE_MODELS = _keys("tatoeba-lm", "plain relative phrasal")


def _pairs(text: str, *studies: str) -> list[tuple[str, str]]:
    """Pairs from lines `system: others`. The first of the studies that has a system gives its key."""

    def key(name: str) -> str:
        return next(f"{study}/{name}" for study in studies if name.partition(".")[0] in NAMES[study])

    lines = (line.split(":") for line in text.split("\n") if line.strip())
    return [(key(system.strip()), key(other)) for system, others in lines for other in others.split()]


_DIFFERENCES = {
    "multi30k": """
        max: base.1
        pr.1: base.1 pr-drawn-w3 max network wide
        pr-drawn-w3: base.1
        network: base.1 max
        wide: base.1
        pr: network wide
        parse: pr pr.1 network wide random right shuffled
        random: pr network right shuffled
        right: pr network shuffled
        shuffled: pr network
        relative: wide
        ngrams.1: base.1 wide
        ngrams: wide relative
        ngrams-3: wide ngrams relative
    """,
    "demo-phrases": """
        max: network
        pr: network max wide
        parse: network pr wide
        parse.1: random right shuffled
        random: network.1 pr.1
        right: network.1
        shuffled: network.1
        code: pr
    """,
    "demo-families": """
        ng-shaw: ng-wide
        ng-2: ng-wide ng-shaw
        ng-3: ng-wide ng-shaw ng-2
        zh-context: zh-paper zh-dl4mt-2
        zh-word: zh-paper
        zh-code: zh-context zh-word zh-dl4mt-2
    """,
    "multi30k-chunks": "biscale-code: biscale",
}

TABLES: dict[str, Callable[[], Table]] = {
    "multi30k/scores": lambda: of_systems(
        "`test_2016_flickr`", _MULTI30K, [PARAMETERS, BLEU, DIFFERENCE, SPLIT, DETOKENISED, CHRF, TER]
    ),
    "multi30k/differences": lambda: of_differences(
        _pairs(_DIFFERENCES["multi30k"], "multi30k-systems", "multi30k-phrases")
    ),
    "multi30k/evaluations": lambda: of_evaluations(_MULTI30K, _UPDATES),
    "multi30k/ablations": lambda: of_ablations(_XU),
    "multi30k/without-phrases": lambda: of_measurement(
        _keys("multi30k-systems", "max pr.1 pr-drawn-w3"),
        _UPDATES,
        "dev perplexity without phrases after",
        "dev_perplexity_without_phrases",
    ),
    "multi30k/ngram-attention": lambda: of_ngram_attention(_keys("multi30k-systems", "ngrams ngrams-3")),
    "multi30k/starts": lambda: of_evaluations(
        _keys("multi30k-systems", "base.1 pr-drawn-w3 pr-dropout pr-drawn-w3-fast pr-no-phrases pr.1 pr-fast-w3"),
        range(300, 3001, 300),
    ),
    "multi30k-chunks/scores": lambda: of_systems(
        "`test_2016_flickr`", _CHUNKS, [PARAMETERS, BLEU, DIFFERENCE, CHRF, TER]
    ),
    "multi30k-chunks/differences": lambda: of_differences(_pairs(_DIFFERENCES["multi30k-chunks"], "multi30k-chunks")),
    "multi30k-chunks/evaluations": lambda: of_evaluations(_CHUNKS, range(300, 3601, 300)),
    "multi30k-chunks/decisions": lambda: of_chunks(_CHUNKS[1:]),
    "multi30k-moses/into-german": lambda: of_moses(
        "captions", "English-German, `test_2016_flickr`", "multi30k-systems/base", [SPLIT, DETOKENISED, CHRF, TER]
    ),
    "multi30k-moses/into-english": lambda: of_moses(
        "captions-into-english", "German-English, `test_2016_flickr`", "multi30k-chunks/dl4mt", [DETOKENISED, CHRF, TER]
    ),
    "demo/scores": lambda: of_systems(
        "test, 1,000 sentences", _keys("demo", "base pr parse"), [BLEU, DIFFERENCE, CHRF, TER, CONTRASTS]
    ),
    "demo/ablations": lambda: of_ablations(_keys("demo", "pr parse")),
    "demo-phrases/scores": lambda: of_systems(
        "test, 1,000 sentences", _DEMO_PHRASES, [PARAMETERS, BLEU, DIFFERENCE, CHRF, TER, CONTRASTS]
    ),
    "demo-phrases/differences": lambda: of_differences(_pairs(_DIFFERENCES["demo-phrases"], "demo-phrases")),
    "demo-phrases/evaluations": lambda: of_evaluations(_DEMO_PHRASES, range(200, 1601, 200)),
    "demo-phrases/ablations": lambda: of_ablations(_keys("demo-phrases", "max pr parse random right shuffled code")),
    "demo-families/scores": lambda: of_systems(
        "test, 1,000 sentences", _DEMO_FAMILIES, [PARAMETERS, BLEU, DIFFERENCE, CHRF, TER, CONTRASTS]
    ),
    "demo-families/differences": lambda: of_differences(_pairs(_DIFFERENCES["demo-families"], "demo-families")),
    "demo-families/evaluations": lambda: of_evaluations(_DEMO_FAMILIES, range(200, 1601, 200)),
    "demo-families/ngram-attention": lambda: of_ngram_attention(_keys("demo-families", "ng-2 ng-3")),
    "tatoeba-lm/scores": lambda: of_systems(
        "test",
        _LANGUAGE_MODELS,
        [
            PARAMETERS,
            ("perplexity per token", lambda key: f"{_perplexity(key, 'tokens'):.2f}"),
            ("per word", perplexity),
            ("to the Transformer", to_transformer),
        ],
    ),
    "tatoeba-lm/evaluations": lambda: of_evaluations(_LANGUAGE_MODELS, range(200, 1601, 200), "dev perplexity"),
}

# What `docs/results/<name>.svg` shows: evaluations on dev.
FIGURES = {
    "multi30k": ("dev_bleu", _MULTI30K),
    "multi30k-chunks": ("dev_bleu", _CHUNKS),
    "demo-phrases": ("dev_bleu", _DEMO_PHRASES),
    "demo-families": ("dev_bleu", _DEMO_FAMILIES),
    "tatoeba-lm": ("dev_perplexity", _LANGUAGE_MODELS),
}


def draw(figure: str) -> str:
    """A figure of `FIGURES` as a file of its own."""
    column, keys = FIGURES[figure]
    lines = [
        Series(group=name(key).replace("`", ""), x=run.evaluations["update"], y=run.evaluations[column])
        for key in keys
        for run in runs(key)
    ]
    label = column.replace("_", " ").replace("bleu", "BLEU")
    return svg_file(draw_curves(figure, lines, title=f"{figure}: {label}", x_label="updates", y_label=label))


def with_tables(text: str) -> str:
    """A document with its tables made again. Raises KeyError for a name that nothing makes."""
    return _TABLE.sub(lambda found: f"<!-- table: {found[1]} -->\n{_markdown(found[1])}", text)


@functools.cache
def _templates() -> dict[str, str]:
    return dict(_TABLE.findall((FOLDER / "templates.md").read_text()))


def names() -> list[str]:
    return [*TABLES, *_templates()]


def _markdown(name: str) -> str:
    if name in _templates():
        return re.sub(r"\{(\w+) ([^}]*)\}", lambda found: VALUES[found[1]](*found[2].split()), _templates()[name])
    return in_markdown(TABLES[name]())


def in_markdown(table: Table) -> str:
    head, *rows = ["| " + " | ".join(row) + " |\n" for row in table]
    return "".join([head, "|---" * len(table[0]), "|\n", *rows])


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(in_markdown(of_differences([(sys.argv[1], sys.argv[2])])), end="")
    else:
        for document in DOCUMENTS:
            document.write_text(with_tables(document.read_text()))
        for figure in FIGURES:
            (FOLDER / f"{figure}.svg").write_text(draw(figure))
