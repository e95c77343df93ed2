"""Part-of-speech tags by Stanza's tagger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from phrasemt.syntax.stanza import close_decisions
from phrasemt.syntax.stanza.batches import TokenDocument
from phrasemt.syntax.stanza.runtime import Device, loading, prepare_stanza

# Batch in sentences and in padded tokens; the tokens bound the memory for long sentences.
_BATCH, _BATCH_TOKENS = 250, 5000


class Tagger:
    """A tagger for one column of tags, `xpos` or `upos`. tags: its tag set; None if the model composes its tags."""

    def __init__(self, trainer: Any, vectors: Any, column: str) -> None:
        """trainer, vectors: Stanza's objects of the model and of the word vectors."""
        self._trainer, self._vectors = trainer, vectors
        model, vocabulary = trainer.model, trainer.vocab[column]
        self._column = [tags.name for tags in model.tag_columns if tags.output].index(column)
        simple = type(vocabulary).__name__ == "WordVocab"  # other vocabularies compose a tag of several parts
        self.tags = set(vocabulary._unit2id) if simple else None
        heads = [model.upos_clf] if column == "upos" or not model.share_hid else []  # the xpos head may read upos
        if column == "xpos":
            head = model.tag_clf["xpos"]
            heads += [head] if simple else list(head)
        self._close: list[Any] = []  # for each head: which rows of its last output are close decisions
        for head in heads:
            head.register_forward_hook(self._note_close_rows)

    def _note_close_rows(self, head: Any, inputs: Any, scores: Any) -> None:
        self._close.append(close_decisions.close_tokens(scores.reshape(-1, scores.shape[-1])))

    def tag(self, sentences: list[list[str]]) -> list[list[str]]:
        """The tags of each sentence. sentences: tokens, in decreasing length.

        A sentence with a close decision is tagged again, alone.
        """
        tags, close = self._tag(sentences, together=True)
        for number in close:
            ((tags[number],), _) = self._tag([sentences[number]], together=False)
        return tags

    def _tag(self, sentences: list[list[str]], *, together: bool) -> tuple[list[list[str]], list[int]]:
        """The tags, and the numbers of the sentences with close decisions; no numbers unless `together`."""
        import torch
        from stanza.models.pos.data import Dataset
        from torch.nn.utils.rnn import pack_padded_sequence

        trainer = self._trainer
        data = Dataset(TokenDocument(sentences), trainer.args, self._vectors, vocab=trainer.vocab, evaluation=True)
        tags: list[list[str]] = [[]] * len(sentences)
        close: set[int] = set()
        for batch in data.to_length_limited_loader(_BATCH, _BATCH_TOKENS):
            self._close.clear()
            with torch.no_grad():
                words = trainer.predict(batch)
            for number, sentence in zip(batch.idx, words, strict=True):
                tags[number] = [word[self._column] for word in sentence]
            if together and (rows_N := torch.stack(self._close).any(0)).any():
                # The rows are the tokens of all sentences in the order of a packed sequence of torch.
                numbers_B = torch.tensor(batch.idx)[torch.tensor(batch.orig_idx)]
                numbers_BT = numbers_B.unsqueeze(1).expand(-1, int(max(batch.lens)))
                numbers_N = pack_padded_sequence(numbers_BT, batch.lens, batch_first=True).data
                close.update(numbers_N[rows_N.cpu()].tolist())
        return tags, sorted(close)


def load_tagger(tagger: Path, vectors: Path, device: Device | None = None) -> Tagger:
    """A tagger for XPOS tags from its model files. Raises DataError if Stanza cannot use the files."""
    with loading({"tagger": tagger, "vectors": vectors}):
        device = prepare_stanza(device)
        from stanza.models.common.pretrain import Pretrain
        from stanza.models.pos.trainer import Trainer

        pretrain = Pretrain(str(vectors))
        return Tagger(Trainer(pretrain=pretrain, model_file=str(tagger), device=device), pretrain, "xpos")
