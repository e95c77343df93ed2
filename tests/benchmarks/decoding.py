"""Beam search beside CTranslate2, and the systems of the papers. Run: python tests/benchmarks/decoding.py --help

Models have random weights and random sources. Each output has exactly the length of its source in all engines, so that
the work does not depend on what the weights find. Engines take turns, round by round, on one thread; figures are CPU
seconds of the whole search without loading, so that other work on the machine hardly counts. Medians over rounds.

The bound of a system is the multiply-adds of its whole search divided by those of its baseline's, which torch counts.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from phrasemt.artefacts.columns import Vocabularies, Vocabulary
from phrasemt.batching.batch import Source
from phrasemt.batching.reader import SourceCollator
from phrasemt.decoding import beam
from phrasemt.decoding.beam import Allowed, beam_search, in_precision
from phrasemt.models.ctranslate2_export import export_ctranslate2
from phrasemt.models.interface import TranslationModel, build_model
from phrasemt.study.architectures import (
    Architecture,
    BiscaleModel,
    Dl4mtModel,
    PhraseRepresentationModel,
    TransformerModel,
)
from phrasemt.study.schema import Decoding
from phrasemt.symbols import EOS, SPECIAL_TOKENS

BEAM = 4
POSITIONS = 2_000  # source positions of a batch, as a search on a CPU takes them
LENGTHS = (9, 13, 19)  # subwords of sources and outputs
SMALL = {"encoder_layers": 2, "decoder_layers": 2, "width": 128, "heads": 4, "ffn_width": 512}
LARGE = {"encoder_layers": 3, "decoder_layers": 3, "width": 256, "heads": 4, "ffn_width": 1024}
SIZES = {"3+3 x 256": (LARGE, 8_000), "2+2 x 128": (SMALL, 1_500)}  # of the model of the demo: the second
PHRASES = {"glance": "max", "pool": "attn", "ta": "on"}
RECURRENT = {"embedding": 256, "hidden": 512}
# Name -> settings, name of the baseline, and the ratio of decoding times that the paper prints.
SYSTEMS: dict[str, tuple[Architecture, str, str]] = {
    "transformer": (TransformerModel(**LARGE), "transformer", ""),
    "+Max": (PhraseRepresentationModel(**LARGE), "transformer", "1.40"),
    "+Max+Attn+TA": (PhraseRepresentationModel(**LARGE, **PHRASES), "transformer", "1.53"),
    "phrasal 1-2": (TransformerModel(**LARGE, attention="ngrams", ngrams=2), "transformer", ""),
    "dl4mt": (Dl4mtModel(**RECURRENT, family="dl4mt"), "dl4mt", ""),
    "biscale": (BiscaleModel(**RECURRENT, family="biscale", chunk_hidden=512, chunk_embedding=512), "dl4mt", ""),
}
PRECISIONS = ("float32", "bfloat16")
Sentences = list[NDArray[np.int32]]


class NoEarlyEnd(Allowed):
    """All outputs have the largest length."""

    def restrict(self, log_probs_BKV: torch.Tensor, length: int) -> torch.Tensor:
        if length < self.last_step:
            log_probs_BKV[:, :, EOS] = -torch.inf
        return super().restrict(log_probs_BKV, length)


beam.Allowed = NoEarlyEnd


@dataclass(frozen=True)
class Batch:
    """Sentences of one length, and the settings of a search that gives each output this length."""

    sentences: Sentences
    decoding: Decoding


def batches_of(count: int, vocabulary: int) -> list[Batch]:
    rng = np.random.default_rng(1)
    batches = []
    for length in LENGTHS:
        most = POSITIONS // (length + 1)
        limits = {"max_length_factor": 0, "max_length_extra": length}
        for first in range(0, count, most):
            size = min(most, count - first)
            drawn = [rng.integers(len(SPECIAL_TOKENS), vocabulary, length).astype(np.int32) for _ in range(size)]
            batches.append(Batch(drawn, Decoding(beam=BEAM, **limits)))
    return batches


def ours(model: TranslationModel[Any, Any], settings: Architecture, batches: list[Batch], precision: str) -> None:
    """Translate all batches."""
    collate = SourceCollator(settings.model_inputs)
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
        for batch in batches:
            source: Source = collate(batch.sentences, range(len(batch.sentences)))
            found = beam_search(model, source, batch.decoding)
            assert {len(best[0].tokens) for best in found} == {batch.decoding.max_length_extra}


def theirs(translator: Any, words: Vocabulary, batches: list[Batch]) -> None:
    """The same by CTranslate2, which cuts an output where we add `</s>`: its limit is one step higher."""
    for batch in batches:
        limit = batch.decoding.max_length_extra + 1
        translator.translate_batch(
            [words.tokens(sentence) for sentence in batch.sentences],
            beam_size=BEAM,
            min_decoding_length=limit,
            max_decoding_length=limit,
            max_batch_size=len(batch.sentences),
        )


def in_turns(engines: Mapping[str, Callable[[], None]], rounds: int) -> dict[str, list[float]]:
    """CPU seconds of each engine in each round, after one round to warm up."""
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    for number in range(rounds + 1):
        for name, run in engines.items():
            begin = time.process_time()
            run()
            if number:
                seconds[name].append(time.process_time() - begin)
    return seconds


def multiply_adds(model: TranslationModel[Any, Any], settings: Architecture, batch: Batch) -> float:
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        ours(model, settings, [batch], "float32")
    return counter.get_total_flops() / 2


def beside_ctranslate2(sizes: list[str], sentences: int, rounds: int) -> None:
    try:
        import ctranslate2
    except ImportError:
        print("ctranslate2 is not installed: pip install -c constraints.txt -e .[ctranslate2]")
        return
    print(f"{'':12} {'':22} {'sentences a CPU s':>18} {'of CTranslate2 float32':>24} {'of its int8':>12}")
    for size in sizes:
        layers, vocabulary = SIZES[size]
        settings = TransformerModel(**layers)
        torch.manual_seed(1)
        model = build_model(settings, source_vocabulary=vocabulary, target_vocabulary=vocabulary).eval()
        batches = batches_of(sentences, vocabulary)
        with tempfile.TemporaryDirectory() as name:
            file, folder = Path(name, "words"), Path(name, "model")
            folder.mkdir()
            entries = [*SPECIAL_TOKENS, *(f"w{number}" for number in range(vocabulary - len(SPECIAL_TOKENS)))]
            file.write_text("".join(f"{entry}\t0\n" for entry in entries))
            words = Vocabulary.read(file)
            export_ctranslate2(model, settings, Vocabularies(words, words), folder)
            engines = {
                f"phrasemt, {precision}": partial(
                    ours, in_precision(model, Decoding(precision=precision)), settings, batches, precision
                )
                for precision in PRECISIONS
            }
            for kind in ("float32", "int8"):
                translator = ctranslate2.Translator(str(folder), compute_type=kind, intra_threads=1, inter_threads=1)
                engines[f"CTranslate2, {kind}"] = partial(theirs, translator, words, batches)
            seconds = in_turns(engines, rounds)
        total = sum(len(batch.sentences) for batch in batches)
        for engine, own in seconds.items():
            ratios = [
                statistics.median(
                    other / mine for other, mine in zip(seconds[f"CTranslate2, {kind}"], own, strict=True)
                )
                for kind in ("float32", "int8")
            ]
            rate = total / statistics.median(own)
            print(f"{size:12} {engine:22} {rate:18.1f} {ratios[0]:24.2f} {ratios[1]:12.2f}", flush=True)


def beside_baselines(systems: list[str], precisions: list[str], sentences: int, rounds: int) -> None:
    vocabulary = SIZES["3+3 x 256"][1]
    batches = batches_of(sentences, vocabulary)
    names = list(dict.fromkeys(name for chosen in systems for name in (SYSTEMS[chosen][1], chosen)))
    torch.manual_seed(1)
    models = {
        name: build_model(SYSTEMS[name][0], source_vocabulary=vocabulary, target_vocabulary=vocabulary)
        .eval()
        .requires_grad_(requires_grad=False)  # torch's counter would look for the graphs of the parameters
        for name in names
    }
    costs = {name: multiply_adds(model, SYSTEMS[name][0], batches[0]) for name, model in models.items()}
    print(f"\n{'':10} {'':14} {'sentences a CPU s':>18} {'ratio':>6} {'bound':>6} {'of bound':>9} {'paper':>6}")
    for precision in precisions:
        engines = {
            name: partial(
                ours, in_precision(model, Decoding(precision=precision)), SYSTEMS[name][0], batches, precision
            )
            for name, model in models.items()
        }
        seconds = in_turns(engines, rounds)
        total = sum(len(batch.sentences) for batch in batches)
        for name in names:
            _, baseline, paper = SYSTEMS[name]
            ratio = statistics.median(a / b for a, b in zip(seconds[name], seconds[baseline], strict=True))
            bound = costs[name] / costs[baseline]
            rate = total / statistics.median(seconds[name])
            figures = f"{rate:18.1f} {ratio:6.2f} {bound:6.2f} {ratio / bound:9.2f} {paper:>6}"
            print(f"{precision:10} {name:14} {figures}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="*", default=list(SIZES), choices=list(SIZES), help="beside CTranslate2")
    parser.add_argument("--systems", nargs="*", default=list(SYSTEMS), choices=list(SYSTEMS), help="beside baselines")
    parser.add_argument("--precision", nargs="*", default=PRECISIONS, choices=PRECISIONS)
    parser.add_argument("--sentences", type=int, default=100, help=f"of each length of {LENGTHS} (default 100)")
    parser.add_argument("--rounds", type=int, default=3, help="measured, after one to warm up (default 3)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.sizes:
        beside_ctranslate2(arguments.sizes, arguments.sentences, arguments.rounds)
    if arguments.systems:
        beside_baselines(arguments.systems, arguments.precision, arguments.sentences, arguments.rounds)


if __name__ == "__main__":
    main()
