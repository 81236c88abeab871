"""Ids of the special tokens, the same in every vocabulary. Words start at `NUM_SPECIAL`.

The order is fairseq's, so that imported vocabularies keep their ids.
"""

BOS, PAD, EOS, UNK, MASK = range(5)
SPECIAL_TOKENS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
NUM_SPECIAL = len(SPECIAL_TOKENS)
