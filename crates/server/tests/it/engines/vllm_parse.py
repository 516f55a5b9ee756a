"""Reads command lines of `vllm serve` (a JSON array of words on each line of stdin), has vLLM's own parser and the
bounds of its configuration classes judge them, and prints one JSON object for each: `error`, or `owned` with the
values of those options that the gateway decides about."""

import contextlib
import dataclasses
import io
import json
import sys
from typing import Annotated

out = sys.stdout
sys.stdout = sys.stderr

import vllm.config as configs
from pydantic import TypeAdapter
from vllm.entrypoints.cli import serve
from vllm.model_executor.layers.quantization import QUANTIZATION_METHODS
from vllm.reasoning import ReasoningParserManager
from vllm.tool_parsers import ToolParserManager
from vllm.utils.argparse_utils import FlexibleArgumentParser
from vllm.v1.attention.backends.registry import AttentionBackendEnum

OWNED = ["model", "model_tag", "served_model_name", "host", "port", "uds", "root_path", "api_key", "hf_token", "grpc",
         "headless", "ssl_keyfile", "ssl_certfile"]

# As vllm/entrypoints/cli/main.py builds it: the whole parser treats `--model` and `--config` specially.
parser = FlexibleArgumentParser(prog="vllm")
commands = parser.add_subparsers(required=False, dest="subparser")
command = serve.cmd_init()[0]
command.subparser_init(commands)

# Destination of an option: the bounds that the class which takes it puts on it.
bounds = {}
for cls in (configs.ModelConfig, configs.CacheConfig, configs.SchedulerConfig, configs.ParallelConfig,
            configs.OffloadConfig, configs.UVAOffloadConfig, configs.LoadConfig):
    for name, field in getattr(cls, "__pydantic_fields__", {}).items():
        if field.metadata:
            # The default of the command line may be None where the class works a value out.
            bounds[name] = TypeAdapter(Annotated[(field.annotation, *field.metadata)])


def check(args):
    command.validate(args)
    for name, adapter in bounds.items():
        value = getattr(args, name, None)
        if value is not None:
            adapter.validate_python(value)
    # What SchedulerConfig.verify_max_model_len says without a model.
    tokens, seqs, length = args.max_num_batched_tokens, args.max_num_seqs, args.max_model_len
    if tokens is not None and seqs is not None and tokens < seqs:
        raise ValueError("max_num_batched_tokens must be greater than or equal to max_num_seqs")
    if args.enable_chunked_prefill is False and tokens is not None and length is not None and tokens < length:
        raise ValueError("max_num_batched_tokens is smaller than max_model_len")
    if args.attention_backend is not None:
        AttentionBackendEnum[str(getattr(args.attention_backend, "name", args.attention_backend))]
    if args.tool_call_parser is not None:
        ToolParserManager.get_tool_parser(args.tool_call_parser)
    if args.reasoning_parser:
        ReasoningParserManager.get_reasoning_parser(args.reasoning_parser)
    if args.quantization is not None and args.quantization not in QUANTIZATION_METHODS:
        raise ValueError(f"Unknown quantization method: {args.quantization}")


def judge(words):
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            args = parser.parse_args(["serve", *words])
            check(args)
    except SystemExit:
        return {"error": said.getvalue().strip().splitlines()[-1:]}
    except Exception as error:
        return {"error": [f"{type(error).__name__}: {error}"]}
    # As serve.cmd does.
    if args.model_tag is not None:
        args.model = args.model_tag
    return {"owned": {name: repr(getattr(args, name, None)) for name in OWNED}}


assert bounds and dataclasses.is_dataclass(configs.CacheConfig)
for line in sys.stdin:
    print(json.dumps(judge(json.loads(line))), file=out)
