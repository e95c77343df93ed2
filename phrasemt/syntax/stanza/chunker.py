"""Chunk tags by Stanza's tagger of named entities, trained on chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from phrasemt.artefacts.card import LONGEST
from phrasemt.errors import MismatchError
from phrasemt.symbols import CHUNK_TYPES
from phrasemt.syntax.chunks.conll import TAGS
from phrasemt.syntax.stanza import close_decisions
from phrasemt.syntax.stanza.annotator import HARMLESS, StanzaAnnotator
from phrasemt.syntax.stanza.batches import TokenDocument, batches_by_length
from phrasemt.syntax.stanza.runtime import Device, loading, prepare_stanza

# Batch in sentences and in padded tokens; the tokens bound the memory for long sentences.
_BATCH, _BATCH_TOKENS = 64, 10_000


class ChunkerAnnotator(StanzaAnnotator):
    """A chunk tagger."""

    name = "chunker"

    def __init__(self, files: Mapping[str, Path], longest: int = LONGEST, device: Device | None = None) -> None:
        """files: model files by role (`phrasemt.artefacts.card.ROLES`).

        Raises DataError if Stanza cannot use them, MismatchError if the model does not give tags of chunks.
        """
        super().__init__(longest)
        with loading(files):
            device = prepare_stanza(device)
            from stanza.models.common.foundation_cache import FoundationCache
            from stanza.models.ner.trainer import Trainer

            cache = FoundationCache(local_files_only=True)
            vectors = cache.load_pretrain(str(files["vectors"]))
            path = str(files["chunker"])
            self._trainer = Trainer(model_file=path, pretrain=vectors, device=device, foundation_cache=cache)
            self._trainer.model.register_forward_hook(self._remember_scores)
        self._check_tags(files)
        with loading(files):
            self._annotate(HARMLESS)

    def _check_tags(self, files: Mapping[str, Path]) -> None:
        """Refuse a tagger of named entities, or of other chunk types."""
        tags = self._trainer.vocab["tag"].items(self._trainer.args["predict_tagset"])
        if unknown := {bio for tag in tags for bio in bio_tags([tag])} - TAGS:
            raise MismatchError(
                "the chunker gives tags that are not chunk types",
                where=files["chunker"],
                expected=", ".join(CHUNK_TYPES),
                found=", ".join(sorted(tag.partition("-")[2] for tag in unknown)[:8]),
                next_step="give a chunker that was trained on the chunks of CoNLL-2000",
            )

    def _remember_scores(self, model: Any, inputs: Any, outputs: Any) -> None:
        """Keep the scores [B, T, K] of K tags at T positions, and the scores [K, K] of pairs of neighbouring tags."""
        _, scores, transitions = outputs
        tagset = self._trainer.args["predict_tagset"]
        self._scores = scores[tagset], transitions[tagset]

    def _annotate(self, sentences: list[list[str]]) -> list[str]:
        texts: list[str] = []
        for _, part in batches_by_length(sentences, _BATCH, _BATCH_TOKENS):
            tags, close_B = self._tags([sentences[number] for number in part])
            for place in close_B.nonzero().flatten().tolist():
                (tags[place],), _ = self._tags([sentences[part[place]]])
            texts += [" ".join(bio_tags(sentence)) for sentence in tags]
        return texts

    def _tags(self, sentences: list[list[str]]) -> tuple[list[list[str]], Any]:
        """The tags of B sentences, and which sentences have a close decision, bool [B]."""
        import torch
        from stanza.models.ner.data import DataLoader

        trainer = self._trainer
        data = DataLoader(
            TokenDocument(sentences),
            len(sentences),
            trainer.args,
            vocab=trainer.vocab,
            evaluation=True,
            preprocess_tags=False,
        )
        with torch.no_grad():
            tags: list[list[str]] = trainer.predict(data[0])
            order, lengths = data[0][5], data[0][8]  # Stanza sorts the batch, and puts the tags back in order
            close_B = torch.empty(len(sentences), dtype=torch.bool)
            close_B[torch.tensor(order)] = close_decisions.close_sequences(*self._scores, torch.tensor(lengths)).cpu()
        return tags, close_B


def bio_tags(tags: Sequence[str]) -> list[str]:
    """BIOES or BIO tags as BIO tags. Like conlleval, read an I or E tag that continues no chunk as a new chunk.

    A chunk begins at B and S, after E, S and O, and at a change of type.
    """
    converted = []
    before, type_before = "O", ""
    for tag in tags:
        prefix, _, type_ = tag.partition("-")
        if prefix not in {"B", "I", "E", "S"} or not type_:
            prefix, type_ = "O", ""
            converted.append("O")
        elif prefix in "BS" or before in "ESO" or type_ != type_before:
            converted.append(f"B-{type_}")
        else:
            converted.append(f"I-{type_}")
        before, type_before = prefix, type_
    return converted
