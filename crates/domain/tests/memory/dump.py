#!/usr/bin/env python3
"""Writes what the tests need of GGUF files: hyper-parameters and tensor sizes. Needs `pip install gguf`.

usage: dump.py OUT.tsv MODEL.gguf …   (all parts of a split model, first part first)"""
import re, sys
from pathlib import Path
from gguf import GGUFReader

KEYS = {"block_count", "embedding_length", "feed_forward_length", "expert_feed_forward_length", "attention.head_count",
        "attention.head_count_kv", "attention.key_length", "attention.value_length", "context_length", "expert_count",
        "expert_used_count", "vocab_size", "attention.sliding_window", "attention.sliding_window_pattern",
        "attention.kv_lora_rank", "rope.dimension_count", "attention.causal", "pooling_type", "ssm.conv_kernel",
        "ssm.inner_size", "ssm.state_size", "ssm.group_count"}
with open(sys.argv[1], "w") as out:
    out.write("# model, then `key` name value or `tensor` name elements bytes\n")
    for path in map(Path, sys.argv[2:]):
        reader = GGUFReader(path)
        model = re.sub(r"-0000\d-of-", "-00001-of-", path.stem)
        arch = reader.fields.get("general.architecture")
        if arch:
            arch = arch.contents()
            out.write(f"{model}\tkey\tarchitecture\t{arch}\n")
            for name, field in reader.fields.items():
                key = name.removeprefix(arch + ".")
                if key in KEYS and name != key:
                    value = field.contents()
                    value = ",".join(str(int(it)) for it in value) if isinstance(value, list) else int(value)
                    out.write(f"{model}\tkey\t{key}\t{value}\n")
            tokens = reader.fields.get("tokenizer.ggml.tokens")
            if tokens:
                out.write(f"{model}\tkey\ttokens\t{len(tokens.data)}\n")
        for it in reader.tensors:
            out.write(f"{model}\ttensor\t{it.name}\t{it.n_elements}\t{it.n_bytes}\n")
