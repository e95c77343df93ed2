"""The special symbols of every vocabulary, at the same ids in all of them (the papers' systems share this convention)."""

from __future__ import annotations

PAD, BOS, EOS, UNK = 0, 1, 2, 3
SPECIAL_TOKENS = ("<pad>", "<s>", "</s>", "<unk>")
