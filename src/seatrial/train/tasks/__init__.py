"""Tasks: items from a JSONL file or from lm_eval, scored by all ranks in lockstep. `items` imports no torch."""
