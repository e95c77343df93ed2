"""Writes the tables of trainings into the documents (`DOCUMENTS`), and the files of `WRITTEN`: `make tables`.

A line `<!-- table: NAME -->` stands before each of these tables. `TABLES` makes most of them;
docs/results/templates.txt has the others, with values in braces. A test compares all tables with what is made here.

    .venv/bin/python docs/results/tables.py SYSTEM OTHER        # the difference of two systems, as in docs/results.md

docs/results/run_values.py makes the values, and explains the keys of systems.
"""

from __future__ import annotations

import functools
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import ledger
from run_values import (
    MEASURED,
    STUDIES,
    by_length,
    by_seed,
    chunks,
    comparison,
    corrected,
    dev_at,
    gain,
    interval,
    keys_of,
    name,
    p,
    perplexity,
    perplexity_of,
    power,
    right,
    runs,
    scores_of,
    to_transformer,
)
from runs import FOLDER, Run

from phrasemt.printed.results import LEDGER, baseline_place, figure_at, row_at
from phrasemt.report.figures import Series, draw_categories, draw_curves
from phrasemt.scoring.scores import ACCURACY
from phrasemt.scoring.significance import p_text

DOCS = FOLDER.parent
DOCUMENTS = [
    DOCS.parent / "README.md",
    DOCS / "claims.md",
    DOCS / "findings.md",
    DOCS / "results.md",
    DOCS / "log" / "results.md",
    *sorted((DOCS / "papers").glob("*.md")),
]
_TABLE = re.compile(r"<!-- table: (\S+) -->\n((?:\|.*\n)+)")

Table = list[list[str]]
Column = tuple[str, Callable[[str], str]]

# Kinds of tables


def of_systems(first: str, keys: Iterable[str], columns: Sequence[Column]) -> Table:
    """A row for each key. first: the heading of the names. Columns without a value are left out."""
    keys, table = list(keys), [[first, *map(name, keys)]]
    for heading, cell in columns:
        values = [cell(key) for key in keys]
        if {value.endswith(_NOT_TESTED) for value in values if value} == {True}:  # said once
            heading, values = _UNTESTED, [value.removesuffix(_NOT_TESTED) for value in values]
        if any(values):
            table.append([heading, *values])
    return [list(row) for row in zip(*table, strict=True)]


def _mean_of(metric: str) -> Callable[[str], str]:
    return lambda key: f"{statistics.mean(scores_of(key, metric)):.2f}"


def _difference(key: str, metric: str = "bleu_tok") -> str:
    try:
        return f"{gain(key, metric)}, {interval(key, metric)}, {corrected(key, metric)}"
    except KeyError:  # a baseline
        return ""


def _power(key: str) -> str:
    """What a difference without a mark would have taken to show."""
    return "" if not _difference(key) or gain(key)[-1] in "†‡" else power(key)


def _parameters(key: str) -> str:
    record = runs(key)[0].record
    parameters, idle = record["parameters"], record["idle_parameters"]
    return f"{parameters:,}" + (f" ({parameters - idle:,})" if idle else "")


def _right_of(kinds: str) -> Callable[[str], str]:
    return lambda key: f"{right(key, kinds)} %"


_POWER = "detectable, seeds needed"
_NOT_TESTED, _UNTESTED = f", {p_text(None)}", "Δ, 95 % interval over sentences (one training of each, not tested)"
COLUMNS: dict[str, Column] = {
    "parameters": ("parameters (in use, if fewer)", _parameters),
    "bleu": ("BLEU tok", by_seed),
    "difference": ("Δ, 95 % interval, p", _difference),
    "power": (_POWER, _power),
    "split": ("BLEU split", _mean_of("bleu_tok_compound_split")),
    "detokenised": ("BLEU detok", _mean_of("bleu_detok")),
    "chrf": ("chrF2", _mean_of("chrf2")),
    "ter": ("TER", _mean_of("ter")),
    "contrasts": ("right contrastive pairs", lambda key: f"{right(key)} %"),
    "pairs-difference": ("Δ of their percentage, 95 % interval, p", lambda key: _difference(key, ACCURACY)),
    **{f"after-{number}": (f"after {number} pairs", _right_of(f"*_{number}_*")) for number in (2, 8, 32)},
    **{
        f"{kind}s": (f"{kind.replace('_', ' ')}s", _right_of(f"{kind}_*"))
        for kind in ("idiom", "particle_verb", "compound")
    },
    "per-token": ("perplexity per token", lambda key: f"{perplexity_of(key, 'tokens'):.2f}"),
    "per-word": ("per word", perplexity),
    "to-transformer": ("to the Transformer", to_transformer),
}


def of_differences(pairs: Iterable[tuple[str, str]]) -> Table:
    """Differences of systems to others: (system, other)."""
    table = [["system", "to", "Δ BLEU tok, 95 % interval, p", _POWER, "Δ chrF2, p", "Δ TER, p"]]
    for system, other in pairs:
        bleu = ", ".join(value(system, "bleu_tok", other) for value in (gain, interval, p))
        more = (f"{gain(system, metric, other)}, {p(system, metric, other)}" for metric in ("chrf2", "ter"))
        table.append([name(system), name(other), bleu, power(system, "bleu_tok", other), *more])
    return table


def of_lengths(pairs: Iterable[tuple[str, str]]) -> Table:
    """Gains in BLEU by the length of the source, and their slope: (system, other)."""
    rows = [(system, other, by_length(system, other)) for system, other in pairs]
    ranges = [*rows[0][2].groups, *rows[0][2].joint]
    headings = [f"{one.name} ({one.sentences})" for one in ranges]
    table = [["Δ BLEU tok, p, by words of the source (sentences)", "to", *headings, "slope, 95 % interval, p"]]
    for system, other, found in rows:
        cells = [
            f"{one.difference.value:+.2f}, {p_text(one.p_value)}"
            for one in (*found.groups.values(), *found.joint.values())
        ]
        assert found.slope is not None
        shown, p_value = found.slope.difference, found.slope.p_value
        slope = f"{shown.value:+.2f}, {shown.low:.2f} to {shown.high:.2f}, {p_text(p_value)}"
        table.append([name(system), name(other), *cells, slope])
    return table


def of_runs(headings: Sequence[str], keys: Iterable[str], cells: Callable[[Run], list[str]]) -> Table:
    """A row for each run, with its seed. headings: of the names and of the cells."""
    rows = [[name(key) if run is runs(key)[0] else "", str(run.seed), *cells(run)] for key in keys for run in runs(key)]
    return [[headings[0], "seed", *headings[1:]], *rows]


def of_evaluations(
    keys: Iterable[str],
    updates: Iterable[int],
    heading: str = "dev BLEU, dev perplexity",
    measured: Mapping[str, int] = MEASURED,
) -> Table:
    """Evaluations on dev, a row for each run. measured: as for `dev_at`."""
    headings = [f"{heading} after", *(f"{update:,}" for update in updates)]
    table = of_runs(headings, keys, lambda run: [dev_at([run], update, measured) for update in updates])
    has_seeds = len({row[1] for row in table[1:]}) > 1
    return table if has_seeds else [[row[0], *row[2:]] for row in table]


# Columns of evaluations with the dev perplexity when the results of some attentions are replaced by their means.
_WITHOUT = {
    "without phrases": "dev_perplexity_without_phrases",
    "without those of the encoder": "dev_perplexity_without_encoder_phrases",
    "of the decoder": "dev_perplexity_without_decoder_phrases",
    "without attention to source tokens": "dev_perplexity_without_source_attention",
}


def of_ablations(keys: Iterable[str]) -> Table:
    """How much a trained system needs its phrases, and the state of its networks; a row for each run, at the end."""

    def cells(run: Run) -> list[str]:
        last = {column: values[-1] for column, values in run.evaluations.items()}
        whole = last["dev_perplexity"]
        without = [_change(last[column], whole) if column in last else "" for column in _WITHOUT.values()]
        saturated = max(value for column, value in last.items() if column.endswith("_saturated"))
        signals = [column for column in last if column.endswith("_signal")]
        ratios = [last[column] / last[column.replace("_signal", "_constant")] for column in signals]
        return [f"{whole:.2f}", *without, f"{100 * saturated:.1f} %", f"{min(ratios):.1f} to {max(ratios):.1f}"]

    return of_runs(["", "dev perplexity", *_WITHOUT, "saturated units, at most", "signal / constant"], keys, cells)


def _change(value: float, whole: float) -> str:
    change = f"{100 * (value / whole - 1):+.1f} %" if value < 2 * whole else f"{value / whole:.1f} times"
    return f"{value:.2f} ({change})"


def of_ngram_attention(keys: Iterable[str]) -> Table:
    """The share of attention that goes to n-grams of two or more tokens, on dev, at the end."""
    kinds = {"encoder": "enc_self", "self-attention of the decoder": "dec_self", "attention to the source": "cross"}
    columns = [f"dev_phrase_mass_{kind}" for kind in kinds.values()]
    headings = ["% of the attention to n-grams of two or more tokens", *kinds]
    return of_runs(headings, keys, lambda run: [f"{100 * run.evaluations[column][-1]:.0f}" for column in columns])


def of_chunks(keys: Iterable[str]) -> Table:
    """How often decoders decide about chunks as the reference, given its words."""
    headings = ["boundaries", "always a boundary", "labels", "always the most frequent label"]
    table = [["% right, given the words", *headings]]
    for key in keys:
        places = [[*side, what] for what in ("boundary_acc", "label_acc") for side in ((), ("majority",))]
        table.append([name(key), *(chunks(key, *place) for place in places)])
    return table


def of_moses(dataset: str, languages: str, neural: str, columns: str) -> Table:
    """Moses beside a neural system; differences to the untuned system."""
    untuned, tuned = f"multi30k-moses/{dataset}/untuned", f"multi30k-moses/{dataset}/tuned"

    def difference(key: str) -> str:
        values = (value(key, "bleu_tok", untuned) for value in (gain, interval, p))
        return ", ".join(values) if key.startswith(tuned) else ""

    keys = [neural, untuned, *(f"{tuned}.{seed}" for seed in (1, 2, 3)), tuned]
    shown = [COLUMNS["bleu"], ("Δ to untuned, 95 % interval, p", difference), *_columns(columns)]
    return of_systems(f"{languages}, `test_2016_flickr`", keys, shown)


# The tables and figures


_XU = keys_of("multi30k-systems", "max pr parse") + keys_of("multi30k-phrases", "random right shuffled")
_MULTI30K = [
    "multi30k-systems/base",
    *_XU,
    *keys_of("multi30k-systems", "network printed pr-drawn-w3 wide wide-used ngrams ngrams-3 relative"),
]
_BY_LENGTH = keys_of("multi30k-systems", "pr network max parse wide ngrams ngrams-3 relative")
_BY_LENGTH += keys_of("multi30k-phrases", "random right shuffled")
_LENGTHS = [(system, "multi30k-systems/base") for system in _BY_LENGTH]
_LENGTHS.append(("multi30k-systems/pr", "multi30k-systems/network"))
_UPDATES = (900, 1200, 1500, 2100, 2700, 3300, 3900, 4500, 5100, 5400)


def _systems(study: str) -> list[str]:
    return keys_of(study, " ".join(STUDIES[study]["names"]))


def _columns(names: str) -> list[Column]:
    return [COLUMNS[name] for name in names.split()]


def _pairs(text: str, *studies: str) -> list[tuple[str, str]]:
    """Pairs from lines `system: others`. The first of the studies that has a system gives its key."""

    def key(name: str) -> str:
        return next(f"{study}/{name}" for study in studies if name.partition(".")[0] in STUDIES[study]["names"])

    lines = (line.split(":") for line in text.split("\n") if line.strip())
    return [(key(system.strip()), key(other)) for system, others in lines for other in others.split()]


_DIFFERENCES = """
    max: base.1
    pr.1: base.1 printed pr-drawn-w3 max network wide
    printed: base.1
    pr-drawn-w3: base.1
    network: base.1 max wide-used
    wide: base.1
    pr: network wide wide-used
    parse: pr pr.1 network wide random right shuffled
    random: pr network right shuffled
    right: pr network shuffled
    shuffled: pr network
    relative: wide
    ngrams.1: base.1 wide
    ngrams: wide relative
    ngrams-3: wide ngrams relative
"""


def _tables_of(study: str) -> Iterator[tuple[str, Callable[[], Table]]]:
    """The tables that docs/results/studies.yaml asks for."""
    one, keys = STUDIES[study], _systems(study)
    yield "scores", lambda: of_systems(one["test_set"], keys, _columns(one["columns"]))
    if "differences" in one:
        yield "differences", lambda: of_differences(_pairs(one["differences"], study))
    if "evaluations" in one:
        first, last, step = one["evaluations"]
        yield "evaluations", lambda: of_evaluations(keys, range(first, last + 1, step))
    if "ablations" in one:
        yield "ablations", lambda: of_ablations(keys_of(study, one["ablations"]))


TABLES: dict[str, Callable[[], Table]] = {
    **{f"claims/{paper}": functools.partial(ledger.rows, paper) for paper in ledger.CLAIMS},
    **{
        f"{one['table']}/{name}": make
        for study, one in STUDIES.items()
        if "table" in one
        for name, make in _tables_of(study)
    },
    "multi30k/scores": lambda: of_systems(
        "`test_2016_flickr`", _MULTI30K, _columns("parameters bleu difference power split detokenised chrf ter")
    ),
    "multi30k/differences": lambda: of_differences(_pairs(_DIFFERENCES, "multi30k-systems", "multi30k-phrases")),
    "multi30k/evaluations": lambda: of_evaluations(_MULTI30K, _UPDATES),
    "multi30k/ablations": lambda: of_ablations([*_XU, "multi30k-systems/printed"]),
    "multi30k/without-phrases": lambda: of_evaluations(
        keys_of("multi30k-systems", "max pr.1 printed pr-drawn-w3"),
        _UPDATES,
        "dev perplexity without phrases",
        {"dev_perplexity_without_phrases": 2},
    ),
    "multi30k/ngram-attention": lambda: of_ngram_attention(keys_of("multi30k-systems", "ngrams ngrams-3")),
    "multi30k/starts": lambda: of_evaluations(
        keys_of("multi30k-systems", "base.1 pr-drawn-w3 pr-dropout pr-drawn-w3-fast pr-no-phrases pr.1 pr-fast-w3"),
        range(300, 3001, 300),
    ),
    "multi30k/lengths": lambda: of_lengths(_LENGTHS),
    "demo-phrases/lengths": lambda: of_lengths(
        _pairs("pr: base network wide\n parse: base\n wide: base\n network: base", "demo-phrases")
    ),
    "bible/lengths": lambda: of_lengths(
        _pairs("ngram: base network wide\n ngrams-3: base wide\n wide: base\n network: base", "bible-en-de")
    ),
    "multi30k-chunks/decisions": lambda: of_chunks(_systems("multi30k-chunks")[1:]),
    "multi30k-moses/into-german": lambda: of_moses(
        "captions", "English-German", "multi30k-systems/base", "split detokenised chrf ter"
    ),
    "multi30k-moses/into-english": lambda: of_moses(
        "captions-into-english", "German-English", "multi30k-chunks/dl4mt", "detokenised chrf ter"
    ),
    "demo-families/ngram-attention": lambda: of_ngram_attention(keys_of("demo-families", "ng-2 ng-3")),
    "tatoeba-lm/scores": lambda: of_systems(
        "test", _systems("tatoeba-lm"), _columns("parameters per-token per-word to-transformer")
    ),
    "tatoeba-lm/evaluations": lambda: of_evaluations(_systems("tatoeba-lm"), range(200, 1601, 200), "dev perplexity"),
}

# Gains on Multi30k beside the printed ones: systems, and the column of a paper's row.
GAINS = {
    "multi30k-systems/max": "xu2020/table-2/max bleu",
    "multi30k-systems/pr": "xu2020/table-2/max-attn-ta bleu",
    "multi30k-systems/parse": "xu2020/table-2/parsing bleu",
    **dict.fromkeys(keys_of("multi30k-phrases", "random right shuffled"), ""),
    **dict.fromkeys(keys_of("multi30k-systems", "network wide"), ""),
    "multi30k-systems/ngrams": "nguyen2020/table-1/phrasal-2 en-de",
    "multi30k-systems/ngrams-3": "nguyen2020/table-1/phrasal-3 en-de",
    "multi30k-systems/relative": "nguyen2020/table-1/shaw en-de",
}


def draw_gains() -> str:
    """docs/results/gains.svg: the gains of `GAINS` with their 95 % intervals beside the reported gains."""
    found = [comparison(key, "multi30k-systems/base")["bleu_tok"].difference for key in GAINS]
    ours = Series(
        group="Multi30k, ours",
        x=range(len(GAINS)),
        y=[one.value for one in found],
        low=[one.low for one in found],
        high=[one.high for one in found],
    )
    printed = {number: _printed_gain(text) for number, text in enumerate(GAINS.values()) if text}
    theirs = Series(group="WMT, as reported", x=list(printed), y=list(printed.values()))
    names = [re.sub(r" \(`.*\)", "", name(key)) for key in GAINS]
    texts = {"title": "Gains beside the reported ones", "x_label": "system", "y_label": "gain in BLEU"}
    return draw_categories(names, [ours, theirs], **texts, ordered=False).file


def draw_evaluations() -> str:
    """docs/results/curves.svg: dev BLEU on Multi30k, the means over seeds."""
    series = []
    for key in keys_of("multi30k-systems", "base wide pr ngrams ngrams-3 relative"):
        x, bleu = runs(key)[0].evaluations["update"], [run.evaluations["dev_bleu"] for run in runs(key)]
        y = [statistics.mean(values) for values in zip(*bleu, strict=True)]
        trained = f", {len(bleu)} trainings" if len(bleu) > 1 else ""
        series.append(Series(group=re.sub(r" \(`.*\)", "", name(key)) + trained, x=x, y=y))
    return draw_curves(series, title="Dev BLEU on Multi30k", x_label="update", y_label="dev BLEU").file


WRITTEN = {"gains.svg": draw_gains, "curves.svg": draw_evaluations}


def _printed_gain(text: str) -> float:
    place, column = text.split()
    baseline = baseline_place(place)
    assert baseline is not None
    gain = figure_at(place, column).difference_to(row_at(baseline)[2])
    assert gain is not None
    return gain


def with_tables(text: str) -> str:
    """A document with its tables made again. Raises KeyError for a name that nothing makes."""
    return _TABLE.sub(lambda found: f"<!-- table: {found[1]} -->\n{_markdown(found[1])}", text)


@functools.cache
def _templates() -> dict[str, str]:
    return dict(_TABLE.findall((FOLDER / "templates.txt").read_text()))


def names() -> list[str]:
    return [*TABLES, *_templates()]


def _markdown(name: str) -> str:
    if name in _templates():
        return ledger.with_values(_templates()[name])
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
        for file, make in WRITTEN.items():
            (FOLDER / file).write_text(make())
        LEDGER.write_text((DOCS / "claims.md").read_text())
