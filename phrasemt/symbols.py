"""The special symbols of every vocabulary, at the same ids in all of them (a convention of all systems here)."""

from __future__ import annotations

PAD, BOS, EOS, UNK = 0, 1, 2, 3
SPECIAL_TOKENS = ("<pad>", "<s>", "</s>", "<unk>")
