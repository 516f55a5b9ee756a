#!/usr/bin/env python3
"""Runs a real llama-server on the fixtures and writes what it reports about its buffers: one TSV row per run.

usage: measure.py LLAMA_SERVER GGUF_DIR OUT.tsv [other]   (`other`: the files of architectures.py)
The server needs `-lv 4` for these lines (b11434). Sizes are in hundredths of MiB, as it prints them."""
import re, subprocess, sys, threading

SERVER, DIR, OUT = sys.argv[1:4]
LINE = re.compile(r"(\S+) +(model|KV|RS|compute|output) buffer size = +([\d.]+) MiB")
SEQ = re.compile(r"llama_context: (n_ctx|n_ctx_seq|n_batch|n_ubatch|n_seq_max) += (\d+)")


def run(model, args):
    command = [SERVER, "-m", f"{DIR}/{model}.gguf", "--host", "127.0.0.1", "--port", "0", "-lv", "4", "-fit", "off",
               "--no-warmup", *args.split()]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    timer = threading.Timer(20, child.kill)
    timer.start()
    sums, failed = {}, ""
    for line in child.stdout:
        if found := LINE.search(line):
            sums[found[2]] = sums.get(found[2], 0) + round(float(found[3]) * 100)
        if found := SEQ.search(line):
            sums[found[1]] = int(found[2])
        if " E " in line:
            failed = failed or line.strip()
        if "model loaded" in line:
            break
    timer.cancel()
    child.kill()
    child.wait()
    if failed or "compute" not in sums:
        print("no row:", model, args, failed, file=sys.stderr)
        return None
    keys = ["n_ctx", "n_ctx_seq", "n_seq_max", "n_ubatch", "model", "KV", "RS", "compute", "output"]
    return "\t".join([model, args] + [str(sums.get(key, 0)) for key in keys])


def runs():
    llama = ["tiny-llama-F16", "tiny-llama-Q8_0", "tiny-llama-Q4_0", "tiny-llama-notemplate-F16", "tiny-draft-F16",
             "tiny-moe-F16", "tiny-split-F16-00001-of-00002"]
    for model in llama:
        for context in (512, 1024, 2048):
            for ubatch in (64, 512, 1024):
                for fa in ("on", "off"):
                    yield model, f"-c {context} -b 2048 -ub {ubatch} -fa {fa}"
        for more in ("", "-np 1", "-c 2048 -np 2", "-c 2048 -np 4", "-c 2048 -np 2 --kv-unified", "-c 2048 -np 8 -fa off",
                     "-ctk f32 -ctv f32", "-ctk bf16 -ctv bf16", "-c 1024 -b 256", "-c 1000 -np 3", "-c 8192",
                     "--load-mode none", "--load-mode mlock"):
            yield model, more
    for context in (1024, 4096, 8192):
        for ubatch in (64, 512, 2048):
            for fa in ("on", "off"):
                yield "tiny-wide-F16", f"-c {context} -b 2048 -ub {ubatch} -fa {fa}"
    for k in ("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"):
        yield "tiny-wide-F16", f"-c 4096 -ctk {k} -ctv {k} -fa on"
    for more in ("", "-ctk q8_0 -fa off", "-ctk q8_0 -ctv q4_0 -fa on -c 8192 -np 4", "-np 1", "-np 4", "-np 16",
                 "-np 4 --kv-unified -fa off", "-c 6000 -np 3", "--load-mode none", "-ub 2048 -np 1"):
        yield "tiny-wide-F16", more
    for model, kind in (("tiny-bert-embed-F16", "--embedding"), ("tiny-bert-rerank-F16", "--reranking")):
        yield model, kind
        for context in (256, 512):
            for ubatch in (64, 256, 512):
                for fa in ("on", "off"):
                    yield model, f"{kind} -c {context} -b {ubatch} -ub {ubatch} -fa {fa}"
        for more in ("-np 1", "-np 2", "-c 512 -np 4 --kv-unified"):
            yield model, f"{kind} {more}"


def other_runs():
    for model in ("x-qwen3-F16", "x-qwen3moe-F16", "x-gemma3-F16", "x-deepseek2-F16", "x-mamba2-F16"):
        for context in (2048, 8192):
            for ubatch in (128, 512):
                for fa in ("on", "off"):
                    yield model, f"-c {context} -ub {ubatch} -fa {fa}"
        for more in ("", "-c 8192 -np 1", "-c 8192 -np 4", "-c 4096 -np 2 --kv-unified", "-c 4096 -ctk q8_0 -ctv q8_0 -fa on"):
            yield model, more


with open(OUT, "w") as out:
    out.write("# model\targs\tn_ctx\tn_ctx_seq\tn_seq_max\tn_ubatch\tmodel\tKV\tRS\tcompute\toutput\n")
    for model, args in (other_runs if sys.argv[4:] else runs)():
        if row := run(model, args):
            out.write(row + "\n")
            out.flush()
