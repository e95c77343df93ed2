"""Constituency trees by Stanza's parser."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from phrasemt.artefacts.card import LONGEST
from phrasemt.errors import MismatchError
from phrasemt.syntax.annotations import Annotation
from phrasemt.syntax.stanza import close_decisions
from phrasemt.syntax.stanza.annotator import HARMLESS, GaveUpError, StanzaAnnotator
from phrasemt.syntax.stanza.batches import Tokens, batches_by_length
from phrasemt.syntax.stanza.runtime import Device, loading, prepare_stanza
from phrasemt.syntax.stanza.tagger import Tagger

# Batch in sentences and in padded tokens; the tokens bound the memory for long sentences.
_BATCH, _BATCH_TOKENS = 50, 10_000
_LABEL_CHARACTERS = str.maketrans({"(": "-LRB-", ")": "-RRB-", " ": "_", "\n": "_"})


class ParserAnnotator(StanzaAnnotator):
    """A constituency parser, with a tagger if the parser reads parts of speech."""

    name = "parser"

    def __init__(self, files: Mapping[str, Path], longest: int = LONGEST, device: Device | None = None) -> None:
        """files: model files by role (`phrasemt.artefacts.card.ROLES`).

        Raises DataError if Stanza cannot use them, MismatchError if the parser needs other tags than the tagger gives.
        """
        super().__init__(longest)
        paths = {role: str(path) for role, path in files.items()}
        with loading(files):
            device = prepare_stanza(device)
            from stanza.models.common.foundation_cache import FoundationCache
            from stanza.models.constituency.trainer import Trainer as ParserTrainer
            from stanza.models.pos.trainer import Trainer as TaggerTrainer

            cache = FoundationCache(local_files_only=True)
            # With None for a path, Stanza searches for a character model, at last on the network; "" means no model.
            arguments = {f"charlm_{way}_file": paths.get(f"{way}_charlm", "") for way in ("forward", "backward")}
            self._model = ParserTrainer.load(
                paths["constituency"],
                args={**arguments, "wordvec_pretrain_file": paths["vectors"], "device": device},
                foundation_cache=cache,
            ).model
            self._model.eval()
            self._tagger = None
            if "tagger" in paths:
                vectors = cache.load_pretrain(paths["vectors"])
                trainer = TaggerTrainer(
                    pretrain=vectors, model_file=paths["tagger"], device=device, args=arguments, foundation_cache=cache
                )
                self._tagger = Tagger(trainer, vectors, "xpos" if self._model.uses_xpos() else "upos")
        self._check_tags(files)
        with loading(files):
            self._annotate(HARMLESS)

    def _check_tags(self, files: Mapping[str, Path]) -> None:
        """Refuse a tagger with another tag set: with unknown tags the parser still makes trees, but useless ones."""
        if not self._model.args["tag_embedding_dim"]:
            return
        known = set(self._model.tags)
        given = self._tagger.tags if self._tagger else set()
        if given is not None and len(given & known) < len(known) / 2:
            raise MismatchError(
                "the parser reads parts of speech that the tagger does not give",
                where=files["constituency"],
                expected=f"tags such as {', '.join(sorted(known)[:8])}",
                found=f"tags such as {', '.join(sorted(given)[:8])}" if given else "no tagger",
                next_step="give the tagger that the parser was trained with",
            )

    def _annotate(self, sentences: list[list[str]]) -> list[str]:
        tags = self._tagger.tag(sentences) if self._tagger else [["X"] * len(tokens) for tokens in sentences]
        return self._parse([list(zip(*both, strict=True)) for both in zip(sentences, tags, strict=True)])

    def annotate_tagged(self, sentences: Sequence[Sequence[tuple[str, str]]]) -> list[Annotation]:
        """Annotate sentences whose parts of speech are given. sentences: pairs of token and tag."""
        return self._run(sentences, self._parse)

    def _parse(self, sentences: Sequence[Sequence[tuple[str, str]]]) -> list[str]:
        trees: list[Any] = []
        for size, numbers in batches_by_length(sentences, _BATCH, _BATCH_TOKENS, refilled=True):
            trees += self._trees([sentences[number] for number in numbers], size)
        roots = self._model.root_labels
        return [
            short_text(tree, [token for token, _ in sentence], roots)
            for tree, sentence in zip(trees, sentences, strict=True)
        ]

    def _trees(self, sentences: Sequence[Sequence[tuple[str, str]]], size: int) -> list[Any]:
        """Stanza's trees. A sentence with a close decision, or without a tree, is parsed again, alone."""
        import torch

        model = self._model
        close: set[int] = set()

        def states(size: int, waiting: Iterator[int]) -> list[Any]:
            numbers = list(itertools.islice(waiting, size))
            if not numbers:
                return []
            new = model.initial_state_from_words([sentences[number] for number in numbers])
            # When Stanza gives a state up, its states no longer correspond to the sentences. The unused field for the
            # gold tree therefore holds the number of the sentence.
            return [state._replace(gold_tree=number) for state, number in zip(new, numbers, strict=True)]

        def choose(states: list[Any]) -> tuple[Any, Any, Any]:
            scores_SD, transitions, chosen_S = model.predict(states)  # S states, D transitions to choose from
            close_S = close_decisions.close_states(scores_SD, chosen_S)
            if close_S.any():
                close.update(states[index].gold_tree for index in close_S.nonzero().flatten().tolist())
            return scores_SD, transitions, chosen_S

        with torch.no_grad():
            results = model.parse_sentences(iter(range(len(sentences))), states, size, choose)
        trees = {result.gold: result.predictions[0].tree for result in results}
        if len(sentences) == 1 and not trees:
            raise GaveUpError
        for number, sentence in enumerate(sentences):
            if len(sentences) > 1 and (number in close or number not in trees):
                (trees[number],) = self._trees([sentence], 1)
        return [trees[number] for number in range(len(sentences))]


def short_text(tree: Any, tokens: Tokens, roots: Sequence[str]) -> str:
    """The short text (`phrasemt.syntax.trees.tree_text`) of a tree of Stanza. roots: labels of root nodes.

    The root is left out unless the tree is a single token. Raises GaveUpError unless leaf i is token i.
    """
    children = tree.children
    if tree.label in roots and len(children) == 1 and not children[0].is_preterminal():
        tree = children[0]
    pieces: list[str] = []
    leaf = 0
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if node is None:
            pieces[-1] += ")"
        elif node.is_preterminal():
            if leaf == len(tokens) or node.children[0].label != tokens[leaf]:
                raise GaveUpError
            pieces.append(f"({_label(node.label)} {leaf})")
            leaf += 1
        else:
            pieces.append("(" + ("ROOT" if node.label in roots else _label(node.label)))
            waiting.append(None)
            waiting += reversed(node.children)
    if leaf != len(tokens):
        raise GaveUpError
    return " ".join(pieces)


def _label(label: str | None) -> str:
    return label.translate(_LABEL_CHARACTERS) if label else "X"
