"""The stage `partition_corpus`: a corpus cut into train, dev and test so that no two splits share a sentence.

In a corpus like Tatoeba a sentence has many translations, so a split by lines would test on sentences of train. Pairs
that share a source or a target sentence therefore stay together: the pairs are the edges of a bipartite graph, and the
stage draws connected components of this graph. Sentences that differ only in case, white space and composed letters
count as equal.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from phrasemt.errors import DataError
from phrasemt.files.lines import read_parallel, write_atomic
from phrasemt.files.preprocessing import comparable, normalise_spaces
from phrasemt.stages.corpus import PartitionCorpus

log = logging.getLogger("phrasemt.corpus.partition")

SPLITS = ("train", "dev", "test")
TRAIN, DEV, TEST = range(3)
# Largest component in dev and test, as a fraction of the pairs of the split. One large component could fill a split.
LARGEST_SHARE = 0.01
_FEWER = "ask for fewer pairs in the study, or add text"


def partition_corpus(
    *,
    settings: PartitionCorpus,
    cores: int,
    source: list[Path],
    target: list[Path],
    train_source: Path,
    train_target: Path,
    dev_source: Path,
    dev_target: Path,
    test_source: Path,
    test_target: Path,
) -> None:
    """Write `settings.test` pairs to test, `settings.dev` pairs to dev, and the other pairs to train.

    source, target: texts line by line, read one after the other. Lines are copied unchanged, in this order.
    Raises DataError for an empty text, sides with unequal numbers of lines, and sizes that cannot be reached.
    """
    components = find_components(source, target)
    split_of_component = draw_splits(components, dev=settings.dev, test=settings.test, seed=settings.seed)
    paths = ((train_source, train_target), (dev_source, dev_target), (test_source, test_target))
    counts = [0, 0, 0]
    with contextlib.ExitStack() as stack:
        streams = [[stack.enter_context(write_atomic(path)) for path in sides] for sides in paths]
        for component, pair in zip(components.of_row, _pairs(source, target), strict=True):
            split = split_of_component[component]
            counts[split] += 1
            for stream, line in zip(streams[split], pair, strict=True):
                stream.write(line.encode("utf-8") + b"\n")
    log.info(
        "partition_corpus: %d pairs in %d components, the largest of %d pairs; %s",
        len(components.of_row),
        len(components.sizes),
        max(components.sizes),
        ", ".join(f"{name} {count}" for name, count in zip(SPLITS, counts, strict=True)),
    )


def _pairs(source: Sequence[Path], target: Sequence[Path]) -> Iterator[tuple[str, ...]]:
    for sides in zip(source, target, strict=True):
        yield from read_parallel(*sides)


@dataclass(frozen=True)
class Components:
    """The connected components of a corpus, numbered from 0 in the order of their first pairs."""

    of_row: list[int]  # component of each pair
    sizes: list[int]  # number of pairs of each component
    keys: list[bytes]  # digest of the first source sentence of each component; all keys differ
    has_empty_side: set[int]  # components that contain an empty side


def sentence_digest(line: str) -> bytes:
    """16 bytes, equal for sentences that count as equal."""
    return hashlib.blake2b(comparable(normalise_spaces(line)).casefold().encode(), digest_size=16).digest()


def find_components(source: Sequence[Path], target: Sequence[Path]) -> Components:
    """The connected components of parallel texts. Memory: a digest and a number for each sentence."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    numbers: tuple[dict[bytes, int], dict[bytes, int]] = ({}, {})  # for each side: sentence -> number from 0
    rows = array("i"), array("i")  # for each side: number of the sentence of each pair
    for pair in _pairs(source, target):
        for line, number, of_side in zip(pair, numbers, rows, strict=True):
            of_side.append(number.setdefault(sentence_digest(line), len(number)))
    if not rows[0]:
        where, next_step = ", ".join(map(str, [*source, *target])), "check the paths in the study"
        raise DataError("the text is empty", where=where, next_step=next_step)
    sources, targets = (np.array(of_side) for of_side in rows)
    # Nodes of the graph: the source sentences, then the target sentences.
    nodes = sum(map(len, numbers))
    edges = coo_array((np.ones(len(sources), bool), (sources, targets + len(numbers[0]))), shape=(nodes, nodes))
    labels = connected_components(edges, directed=False)[1][sources]
    _, first, of_row, sizes = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(first)
    of_row = np.argsort(order)[of_row]
    empty = [number.get(sentence_digest(""), -1) for number in numbers]
    digests = list(numbers[0])
    return Components(
        of_row=of_row.tolist(),
        sizes=sizes[order].tolist(),
        keys=[digests[number] for number in sources[first[order]]],
        has_empty_side=set(of_row[(sources == empty[0]) | (targets == empty[1])].tolist()),
    )


def draw_splits(components: Components, *, dev: int, test: int, seed: int) -> bytearray:
    """The split of each component.

    Seed and content give the components a random order. Test first and then dev take components in this order until
    they have their numbers of pairs. They skip components that are larger than LARGEST_SHARE of the split (single pairs
    always fit) or than the missing number of pairs, and components with an empty side, which stay in train and can be
    filtered there. Raises DataError if a size cannot be reached.
    """
    key = seed.to_bytes(8, "big")
    order = sorted(
        range(len(components.sizes)),
        key=lambda component: hashlib.blake2b(components.keys[component], key=key).digest(),
    )
    splits = bytearray(len(components.sizes))
    for split, wanted in ((TEST, test), (DEV, dev)):
        missing, largest = wanted, max(1, int(wanted * LARGEST_SHARE))
        for component in order:
            size = components.sizes[component]
            may_leave_train = splits[component] == TRAIN and component not in components.has_empty_side
            if may_leave_train and size <= min(missing, largest):
                splits[component] = split
                missing -= size
                if not missing:
                    break
        if missing:
            raise DataError(
                "too few pairs share no sentence with the rest of the corpus",
                where=f"partition, {SPLITS[split]}",
                expected=f"{wanted} pairs in groups of at most {largest} that share a sentence",
                found=f"{wanted - missing} such pairs among {len(components.of_row)}",
                next_step=_FEWER,
            )
    if TRAIN not in splits:
        expected, found = f"more than {dev + test} pairs", f"{len(components.of_row)} pairs"
        raise DataError(
            "no pairs are left for train", where="partition", expected=expected, found=found, next_step=_FEWER
        )
    return splits
