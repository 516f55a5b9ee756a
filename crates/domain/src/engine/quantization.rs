//! Quantisation methods that vLLM loads.

/// What vLLM 0.32.0 takes both as `quant_method` of a `config.json` and as `--quantization`
/// (`vllm/model_executor/layers/quantization/__init__.py`), in its own order.
pub const VLLM: &[&str] = &[
    "awq",
    "auto_awq",
    "fp8",
    "fbgemm_fp8",
    "fp_quant",
    "modelopt",
    "modelopt_fp4",
    "modelopt_mxfp8",
    "modelopt_mixed",
    "auto_gptq",
    "gptq",
    "gptq_marlin",
    "awq_marlin",
    "humming",
    "compressed-tensors",
    "experts_int8",
    "quark",
    "moe_wna16",
    "torchao",
    "inc",
    "mxfp4",
    "gpt_oss_mxfp4",
    "deepseek_v4_fp8",
];
