//! Engines send no statistics of their use to their makers.

/// Environment variables that engines and their libraries obey: vLLM (0.32.0: `usage/usage_lib.py`, which otherwise posts the
/// model's architecture, settings and GPUs when it starts and every ten minutes) and the hub's client. They are not part of
/// what instances are compared by, so those that run already stay as they are. A model's `extra_env` can set them otherwise.
pub(crate) const NO_STATISTICS: [(&str, &str); 3] =
    [("VLLM_NO_USAGE_STATS", "1"), ("DO_NOT_TRACK", "1"), ("HF_HUB_DISABLE_TELEMETRY", "1")];
