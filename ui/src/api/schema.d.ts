// Written by scripts/gen-api.mjs from openapi.json. Do not edit.

export interface Schemas {
  BaseDir: {
    base_dir: string;
    free_bytes: number | null;
    total_bytes: number | null;
    source: "database" | "settings";
    /** The directory of the setting `MODELS_DIR`. */
    settings_base_dir: string;
  };
  Budgets: {
    day: {
      limit: number;
      /** Tokens that were used. `null` if they are not counted, as for a key that can't be used. */
      used: number | null;
      /** Whole percent of the limit; `null` like `used`. It is above 100 by what the requests used that were in flight when the budget ran out. */
      pct: number | null;
      /** It is nearly used up. */
      warning: boolean;
    } | null;
    month: {
      limit: number;
      /** Tokens that were used. `null` if they are not counted, as for a key that can't be used. */
      used: number | null;
      /** Whole percent of the limit; `null` like `used`. It is above 100 by what the requests used that were in flight when the budget ran out. */
      pct: number | null;
      /** It is nearly used up. */
      warning: boolean;
    } | null;
  };
  Chat: {
    id: string;
    title: string;
    model_name: string;
    engine_type: Schemas["Engine"] | null;
    constraints: Record<string, unknown>;
    /** Milliseconds since 1970. */
    created_at: number;
    /** Milliseconds since 1970. */
    updated_at: number;
    /** A model is answering now: `GET /v1/chat/sessions/{id}/completions/current`. */
    answering: boolean;
    /** The list shows it before chats that are not pinned. */
    pinned: boolean;
    messages: Schemas["ChatMessage"][];
  };
  ChatAnswerEvent: {
    event?: "begin" | "delta" | "end";
    id?: string;
    retry?: number;
    data: string;
  };
  ChatMessage: {
    id: number;
    role: "user" | "assistant";
    content: string;
    metrics: Record<string, unknown> | null;
    /** Milliseconds since 1970. */
    timestamp: number;
  };
  ChatSummary: {
    id: string;
    title: string;
    model_name: string;
    engine_type: Schemas["Engine"] | null;
    constraints: Record<string, unknown>;
    /** Milliseconds since 1970. */
    created_at: number;
    /** Milliseconds since 1970. */
    updated_at: number;
    /** A model is answering now: `GET /v1/chat/sessions/{id}/completions/current`. */
    answering: boolean;
    /** The list shows it before chats that are not pinned. */
    pinned: boolean;
    message_count: number;
    messages?: Schemas["ChatMessage"][];
  };
  DeploymentJob: {
    /** `deploy-<number>`. */
    id: string;
    status: "pending" | "running" | "completed" | "failed" | "cancelled";
    job_type: "export" | "model_export" | "import" | "db_restore";
    /** What it does just now, for people. */
    step: string;
    /** From 0 to 1. */
    progress: number;
    /** Seconds since 1970. */
    started_at: number;
    /** Seconds since 1970; `null` while it runs. */
    finished_at: number | null;
    /** Bytes that it will have done at its end, as far as that is known. */
    estimated_size_bytes: number | null;
    /** Bytes that are done. What an earlier run left and is taken over counts as well. */
    bytes_written: number;
    /** Seconds that are left, if the rest goes as fast as what is done. */
    eta_seconds: number | null;
    /** Why it failed. */
    error: string | null;
    /** What it did, oldest line first. */
    logs: string[];
    /** What it made: depends on `job_type`. */
    artifacts: unknown;
    /** The package's folder. */
    output_dir: string;
  };
  Diagnosis: {
    /** Whether a signature matched. If none did, the other fields say the little that is known. */
    detected: boolean;
    title: string;
    message: string;
    fixes: {
      text: string;
      /** The field of the model's settings to change; absent if something else has to be changed. */
      field?: string;
      /** The value to try. `null` unsets the field; if it is absent, the reader has to choose a value. */
      value?: unknown;
    }[];
    /** The field of the first fix that has one. */
    field: string | null;
    severity: "error" | "warning" | "info";
    /** The signature's name, which never changes; `unknown` if no signature matched. */
    error_type: "container_name_in_use" | "container_removed" | "cuda_driver_too_old" | "cuda_error" | "docker_no_address_range" | "docker_permission_denied" | "docker_timeout" | "docker_unreachable" | "dtype_not_supported" | "dtype_not_with_quantization" | "ended_unwatched" | "engine_answers_wrongly" | "engine_not_answering" | "engine_not_installed" | "entrypoint_missing" | "gpu_driver_not_loaded" | "gpu_driver_too_old" | "gpu_in_use" | "gpu_not_supported_by_image" | "gpu_toolkit_missing" | "gpu_unknown" | "heads_not_divisible" | "host_disk_full" | "host_out_of_memory" | "hub_access_restricted" | "hub_download_failed" | "hub_file_not_found" | "hub_model_not_cached" | "hub_not_reachable" | "hub_repository_not_found" | "hub_token_refused" | "hub_tokenizer_not_cached" | "illegal_instruction" | "image_not_allowed" | "image_not_available" | "image_not_found" | "image_pull_failed" | "image_wrong_platform" | "key_mismatch" | "killed" | "llamacpp_architecture_unsupported" | "llamacpp_argument_file_not_found" | "llamacpp_argument_removed" | "llamacpp_assertion" | "llamacpp_big_endian" | "llamacpp_cache_type_not_supported" | "llamacpp_chat_template_invalid" | "llamacpp_draft_model_unusable" | "llamacpp_file_empty" | "llamacpp_file_not_found" | "llamacpp_file_not_readable" | "llamacpp_file_truncated" | "llamacpp_gguf_too_new" | "llamacpp_git_lfs_pointer" | "llamacpp_gpu_not_used" | "llamacpp_gpu_out_of_memory" | "llamacpp_html_page" | "llamacpp_invalid_value" | "llamacpp_kv_quant_block" | "llamacpp_kv_quant_block_v" | "llamacpp_kv_quant_needs_flash_attn" | "llamacpp_lora_not_usable" | "llamacpp_memory_not_locked" | "llamacpp_metadata_invalid" | "llamacpp_metadata_missing" | "llamacpp_no_model" | "llamacpp_not_first_part" | "llamacpp_not_generative" | "llamacpp_not_gguf" | "llamacpp_out_of_memory" | "llamacpp_port_in_use" | "llamacpp_pre_tokenizer_unknown" | "llamacpp_projector_as_model" | "llamacpp_projector_not_usable" | "llamacpp_split_part_missing" | "llamacpp_tensor_count" | "llamacpp_tensor_missing" | "llamacpp_tensor_shape" | "llamacpp_tensor_type_unknown" | "llamacpp_tokenizer_missing" | "llamacpp_too_many_threads" | "llamacpp_unknown_argument" | "llamacpp_unknown_buffer_type" | "llamacpp_unknown_device" | "machine_restarted" | "memlock_limit" | "model_file_not_found" | "model_file_unreachable" | "models_dir_missing" | "nccl_failed" | "no_gpu" | "port_allocated" | "program_not_startable" | "python_module_missing" | "quantization_needs_newer_gpu" | "segfault" | "shared_memory_too_small" | "simulator_misnamed" | "startup_timeout" | "stop_failed" | "terminated" | "too_few_gpus" | "unknown" | "vllm_architecture_unsupported" | "vllm_batch_below_context" | "vllm_batch_below_sequences" | "vllm_block_size_not_supported" | "vllm_chat_template_not_found" | "vllm_compiler_missing" | "vllm_config_invalid" | "vllm_config_missing" | "vllm_context_too_long" | "vllm_cpu_memory_too_small" | "vllm_cuda_out_of_memory" | "vllm_engine_dead" | "vllm_gguf_not_supported" | "vllm_invalid_choice" | "vllm_invalid_value" | "vllm_kv_cache_too_small" | "vllm_lora_not_found" | "vllm_lora_rank_too_high" | "vllm_memory_profiling_disturbed" | "vllm_model_folder_not_found" | "vllm_no_chat_template" | "vllm_no_kv_cache_memory" | "vllm_not_quantized" | "vllm_port_in_use" | "vllm_quantization_mismatch" | "vllm_remote_code_not_trusted" | "vllm_shard_missing" | "vllm_tokenizer_not_found" | "vllm_tool_choice_needs_parser" | "vllm_unknown_argument" | "vllm_unknown_attention_backend" | "vllm_unknown_quantization" | "vllm_unknown_reasoning_parser" | "vllm_unknown_tool_parser" | "vllm_value_out_of_range" | "vllm_weights_damaged" | "vllm_weights_missing" | "vllm_weights_too_large" | "vllm_worker_crashed" | "vllm_worker_illegal_instruction" | "vllm_worker_out_of_memory";
    /** Lines quoted from the log without colours and prefixes: at most five, each of at most 500 bytes. */
    evidence: string[];
  };
  DryRun: {
    /** The served name that the record has or would get. */
    served_name: string;
    command: string[];
    /** The options of `command` that only the gateway sets: where the engine listens, what it serves under which name. */
    gateway_options: string[];
    /** The command as a line for a shell. */
    command_str: string;
    /** No warning is an error: a start would not fail for a reason that is known. */
    valid: boolean;
    /** Environment variables. Values that may be secrets are shown as `***`. */
    env: Record<string, string>;
    image: string;
    /** Whether the image is on the machine; `null` if the container runtime does not answer. */
    image_cached: boolean | null;
    engine_version: string;
    simulator: boolean;
    /** GiB where the model computes, on its GPUs or in RAM; `null` rather than a guess. */
    vram_estimate_gb: number | null;
    /** Sizes are GiB; see docs/memory-estimate.md. */
    vram_estimate: Schemas["MemoryEstimate"] | null;
    warnings: ({
      severity: "error" | "warning" | "info";
      category: string;
      title: string;
      message: string;
      fix: string | null;
      field: string | null;
      /** Values that were tried and solve the problem, in the form that a change request takes. */
      set: Record<string, unknown> | null;
    })[];
  };
  Engine: "vllm" | "llamacpp";
  EngineRecommendation: {
    recommended_engine: "vllm" | "llamacpp" | "none";
    recommended_format: "safetensors" | "gguf" | "pytorch" | "none";
    reason: string;
    has_multipart_gguf: boolean;
    has_safetensors: boolean;
    has_gguf: boolean;
    /** The value to use for `local_path`. */
    path: string | null;
    task: "generate" | "embed" | "rerank" | null;
    /** The fields of a create request for it, except `served_name`; `null` if nothing is recommended, and for a repository of the hub. */
    settings: Record<string, string> | null;
  };
  EngineWord: "vllm" | "llamacpp" | "primary" | "secondary";
  Error: {
    error: {
      message: string;
      type: "authentication_error" | "conflict_error" | "invalid_request_error" | "not_found_error" | "permission_error" | "rate_limit_error" | "server_error" | "service_unavailable_error";
      param: string | null;
      code: Schemas["ErrorCode"];
      /** Every problem of a request that was read. */
      details?: {
        param: string;
        message: string;
        code: Schemas["ErrorCode"];
      }[];
      /** What the engine calls it, if it was the engine that refused. */
      engine_code?: string;
      [key: string]: unknown;
    };
    request_id: string;
    /** Under `/v1/messages` only. */
    type?: "error";
  };
  ErrorCode: "invalid_json" | "invalid_request" | "duplicate_key" | "parameter_not_allowed" | "context_length_exceeded" | "task_mismatch" | "unauthenticated" | "invalid_credentials" | "invalid_api_key" | "forbidden" | "cross_site_request" | "setup_token_required" | "insufficient_scope" | "model_not_allowed" | "ip_not_allowed" | "hub_access_denied" | "not_found" | "unknown_route" | "model_not_found" | "unsupported_by_engine" | "method_not_allowed" | "request_timeout" | "job_running" | "already_bootstrapped" | "invalid_state" | "served_name_conflict" | "name_conflict" | "last_owner" | "changed_meanwhile" | "request_too_large" | "unsupported_media_type" | "unknown_host" | "validation_error" | "path_not_allowed" | "model_file_missing" | "rate_limit_exceeded" | "budget_exceeded" | "too_many_streams" | "too_many_attempts" | "request_head_too_large" | "internal" | "engine_error" | "model_unavailable" | "engine_key_mismatch" | "bad_upstream" | "request_loop" | "model_not_running" | "image_not_available" | "hub_unavailable" | "runtime_unavailable" | "host_unavailable" | "request_memory_full" | "streams_exhausted" | "database_busy" | "database_unavailable" | "metering_unavailable" | "shutting_down" | "upstream_timeout";
  Event: {
    event?: "snapshot" | "reset" | "model" | "model_deleted" | "pull" | "log" | "log_end" | "job" | "restore_drill" | "lag";
    id?: string;
    retry?: number;
    data: string;
  };
  FileSystem: {
    /** What it holds; several, if they share the file system. */
    holds: ("data" | "models" | "hub_cache")[];
    total_mb: number;
    used_mb: number;
    /** The used share of the space that may be used, as `df` computes it. */
    used_pct: number;
  };
  Found: {
    name: string;
    available: boolean;
    detail: string;
  };
  GatewayProcess: {
    rss_mb: number | null;
    open_fds: number | null;
    threads: number | null;
    /** The CPU time that it used since it started. */
    cpu_seconds: number | null;
  };
  GpuNow: {
    index: number;
    name: string;
    mem_total_mb: number | null;
    mem_used_mb: number | null;
    util_pct: number | null;
    temperature_c: number | null;
    /** Watts. */
    power_w: number | null;
  };
  GpuParts: {
    weights_gb: number;
    kv_cache_gb: number;
    overhead_gb: number;
  };
  HubSummary: {
    architecture: string | null;
    model_type: string | null;
    /** Context length in tokens. */
    context_length: number | null;
    num_layers: number | null;
    hidden_size: number | null;
    num_attention_heads: number | null;
    /** The largest number of all layers. */
    num_key_value_heads: number | null;
    vocab_size: number | null;
    /** Quantisation, as in `gptq 4-bit`. */
    quantization: string | null;
    task: "generate" | "embed" | "rerank" | null;
  };
  Inspection: {
    has_gguf: boolean;
    has_safetensors: boolean;
    /** Models that could be served; usable ones first, then by size, the largest first. */
    gguf_groups: ({
      /** Name of the quantisation, as in `Q4_K_M`; `unknown` if nothing shows it. */
      quant_type: string;
      /** Paths relative to the inspected folder, in the order of the parts. */
      files: string[];
      /** MiB. */
      total_size_mb: number;
      is_multipart: boolean;
      status: "ready" | "incomplete" | "invalid";
      /** `null` if the first file's header can't be read. */
      metadata: {
        architecture: string | null;
        context_length: number | null;
        embedding_length: number | null;
        block_count: number | null;
        /** The largest number of all layers. */
        attention_head_count: number | null;
        /** The largest number of all layers. */
        attention_head_count_kv: number | null;
        vocab_size: number | null;
        /** Name of the quantisation. */
        file_type: string;
        name: string | null;
        gguf_version: number;
        sliding_window: number | null;
        expert_count: number | null;
        expert_used_count: number | null;
        pooling_type: number | null;
      } | null;
      /** The file to start the engine with, relative to the models directory. */
      path: string;
      size_bytes: number;
      /** Number of parts according to the file names; 1 for a single file. */
      expected_parts: number;
      /** Size of the weights, without headers and padding. */
      tensor_bytes: number | null;
      parameter_count: number | null;
      task: "generate" | "embed" | "rerank";
      chat_template: boolean;
      tokenizer: boolean;
      /** Why it is not `ready`. */
      errors: string[];
      warnings: string[];
    })[];
    /** `null` without safetensors files. */
    safetensor_info: {
      architecture: string | null;
      model_type: string | null;
      /** MiB. */
      total_size_mb: number;
      /** Number of files that are there. */
      file_count: number;
      context_length: number | null;
      num_layers: number | null;
      hidden_size: number | null;
      num_attention_heads: number | null;
      vocab_size: number | null;
      status: "ready" | "incomplete" | "invalid";
      /** The checkpoint's folder, relative to the models directory, as `local_path` takes it. */
      path: string;
      size_bytes: number;
      missing_files: string[];
      num_key_value_heads: number | null;
      head_dim: number | null;
      intermediate_size: number | null;
      sliding_window: number | null;
      num_experts: number | null;
      num_experts_per_token: number | null;
      dtype: string | null;
      /** Quantisation, as in `gptq 4-bit`. */
      quantization: string | null;
      tensor_bytes: number | null;
      parameter_count: number | null;
      tie_word_embeddings: boolean;
      needs_remote_code: boolean;
      multimodal: boolean;
      task: "generate" | "embed" | "rerank";
      chat_template: boolean;
      tokenizer: boolean;
      /** Numbers from `generation_config.json`. */
      generation_defaults: Record<string, number>;
      errors: string[];
      warnings: string[];
    } | null;
    engine_recommendation: Schemas["EngineRecommendation"];
    gguf_validation: {
      total_files: number;
      valid_files: number;
      invalid_files: number;
      /** Sentences that begin with the file's name. */
      errors: string[];
    };
    /** Path of the inspected folder, relative to the models directory. */
    path: string;
    /** GGUF files that go beside a model: vision and audio encoders. */
    mmproj_files: ({
      /** Path relative to the models directory. */
      path: string;
      size_bytes: number;
      /** The model that it was made for, if the file says so. */
      base_model: string | null;
    })[];
    /** `LoRA` adapters: GGUF files and folders. */
    adapter_files: ({
      /** Path relative to the models directory. */
      path: string;
      size_bytes: number;
      /** The model that it was made for, if the file says so. */
      base_model: string | null;
    })[];
    /** What may go wrong, as sentences that name the file. */
    warnings: string[];
  };
  Key: {
    id: number;
    name: string;
    /** The first characters of the token. */
    prefix: string;
    scopes: string;
    models: string[] | null;
    org_id: number;
    org_name: string;
    user_id: number | null;
    username: string | null;
    ip_allowlist: string[];
    expires_at: string | null;
    created_at: string;
    last_used_at: string | null;
    revoked_at: string | null;
    status: "active" | "expired" | "revoked" | "holder_disabled";
    rpm_limit: number | null;
    tpm_limit: number | null;
    max_concurrency: number | null;
    max_streams: number | null;
    budget_tokens_day: number | null;
    budget_tokens_month: number | null;
    limit_mode: Schemas["LimitMode"];
    /** The limits in force: with the gateway's defaults, under the limits of the user and the organisation. */
    effective_limits: Schemas["Limits"];
    budget: Schemas["Budgets"] | null;
    /** For `If-Match`: it changes with everything of the key that can be changed. */
    revision: string;
  };
  LimitMode: "enforce" | "shadow";
  Limits: {
    rpm_limit: number | null;
    tpm_limit: number | null;
    max_concurrency: number | null;
    max_streams: number | null;
    budget_tokens_day: number | null;
    budget_tokens_month: number | null;
  };
  LlamacppModel: {
    id: number;
    name: string;
    served_name: string;
    task: Schemas["Task"];
    engine_type: "llamacpp";
    archived: boolean;
    hub_token_set: boolean;
    created_at: string;
    state: Schemas["ModelState"];
    state_reason: string | null;
    needs_apply: boolean;
    needs_apply_reason: string | null;
    rolled_back: {
      reason: string | null;
      diagnosis: Schemas["Diagnosis"] | null;
      task: Schemas["Task"];
      settings: Record<string, unknown>;
    } | null;
    diagnosis: Schemas["Diagnosis"] | null;
    /** What the gateway does by itself after failures (`restart_policy`). `null`: nothing. */
    restart: {
      /** Restarts within the last hour that count towards `restart_limit`. */
      attempts: number;
      last_at: string | null;
      /** When the next one is due. */
      next_at: string | null;
      /** It stays `failed` until somebody starts it. */
      given_up: boolean;
    } | null;
    /** The simulator stands in for the engine: what it answers means nothing. */
    simulator: boolean;
    /** Fields that are not set: what is shown of them is the default. */
    defaulted: string[];
    updated_at: string;
    /** For `If-Match`: it changes with everything of the record that can be changed, but for the hub's token. */
    revision: string;
    /** `offline`: the engine uses local files only. `online`: the engine fetches the weights from the model hub and caches them. Unset: online when there is a `repo_id` and no `local_path`. */
    mode: "online" | "offline";
    /** Model-hub repository (online mode). */
    repo_id: string | null;
    /** Folder or `.gguf` file, relative to the models base directory. */
    local_path: string | null;
    /** Tokenizer: a repository of the hub, which the engine fetches and caches, or a folder below `/models/`. vLLM needs it for GGUF files. */
    tokenizer: string | null;
    /** Folder with a `config.json`, for GGUF on vLLM. */
    hub_config_path: string | null;
    /** Container image that replaces the gateway's default for this engine. */
    engine_image: string | null;
    /** Longest time in `loading` before the model counts as failed. Unset: 600 for vLLM, 300 for llama.cpp. */
    startup_timeout_sec: number | null;
    /** `on_failure`: the gateway starts a failed model again, after 1 s, then 5 s, 30 s, 2 min and 10 min, except where that can't help (a file, an image or an engine that does not exist). `never`: it stays `failed` until somebody starts it. */
    restart_policy: "never" | "on_failure" | null;
    /** With `restart_policy` `on_failure`: the number of restarts within an hour after which the model stays `failed`. Restarts before a run of 10 minutes do not count. */
    restart_limit: number | null;
    /** When the gateway starts, it starts this model again if the model should run and its engine has ended meanwhile, as after a restart of the machine. */
    autostart: boolean | null;
    /** Longest wait for the first byte of an answer. */
    request_timeout_sec: number | null;
    /** Longest silence between two bytes of an answer. */
    stream_idle_timeout_sec: number | null;
    /** Where the model runs. `auto`: on GPUs if the machine has any. */
    device: "auto" | "cuda" | "cpu" | null;
    /** Indexes of the GPUs that the engine may use. Unset: all of them. */
    selected_gpus: number[] | null;
    /** RAM that the container may use, including `/dev/shm` and files in RAM; an engine that needs more is ended. Unset: no limit but the machine's. It has no effect where engines are processes. */
    memory_limit_gib: number | null;
    /** The container can't change its own files; only `/tmp` (in RAM) and the hub cache are writable. Unset: true for llama.cpp, false for vLLM, whose compilers write elsewhere too. It has no effect where engines are processes. */
    read_only_root: boolean | null;
    /** Jinja chat template, or (llama.cpp) the name of a built-in one. */
    chat_template: string | null;
    /** File with a Jinja chat template. */
    chat_template_file: string | null;
    /** LoRA adapters as `name=path`, paths relative to the models base directory. On vLLM clients call each by its own name, like a model; llama.cpp applies all of them at once. */
    lora_adapters: string[] | null;
    /** Seed of the sampler. */
    seed: number | null;
    /** Arguments that are added to the engine's command as they are. Arguments that the gateway sets itself are refused. */
    extra_args: string[] | null;
    /** Environment variables that are added to the container. Variables that the gateway sets itself are refused. */
    extra_env: Record<string, string> | null;
    /** Parameters that the gateway adds to requests without them. */
    request_defaults: Record<string, unknown> | null;
    /** Context length, shared by all slots; 0 means the model's own. */
    context_size: number | null;
    /** Layers that are kept on GPUs. 999 means as many as fit; with `fit_memory` `off`, and in builds before b7400, it means all. The default counts only where the container gets GPUs. */
    ngl: number | null;
    /** Prompt tokens that the engine handles together; 128 to 2048 is advisable. For embeddings the default is the context, at most 8192, since the engine refuses an input that is longer than a batch. */
    batch_size: number | null;
    /** Physical batch; embedding inputs must fit into it. Unset: 512, or, for embeddings, the same as the batch. */
    ubatch_size: number | null;
    /** CPU threads; never more than the machine has CPUs. */
    threads: number | null;
    /** Requests that the engine answers at the same time. Unset: the engine chooses. */
    parallel_slots: number | null;
    /** Share of each GPU, comma-separated; the shares add up to about 1. */
    tensor_split: string | null;
    /** How the model is split over GPUs. */
    split_mode: "none" | "layer" | "row" | null;
    /** GPU that gets what is not split. */
    main_gpu: number | null;
    /** Flash attention; a quantised V cache needs it. */
    flash_attn: "on" | "off" | "auto" | null;
    /** Locks the weights in RAM. */
    mlock: boolean | null;
    /** Reads the weights instead of mapping the file. */
    no_mmap: boolean | null;
    /** How the weights get into memory; it overrides `mlock` and `no_mmap`. */
    load_mode: "auto" | "none" | "mmap" | "mlock" | "mmap+mlock" | "dio" | null;
    /** Placement on machines with several memory nodes. */
    numa: "isolate" | "distribute" | "none" | null;
    /** Base frequency of RoPE. Unset: the model's. */
    rope_freq_base: number | null;
    /** Frequency scale of RoPE. 1.0 is not sent: it stands for what the model's file says, which is 1.0 unless the model was made for another scale. */
    rope_freq_scale: number | null;
    /** Element type of the K cache. */
    cache_type_k: "f32" | "f16" | "bf16" | "q8_0" | "q4_0" | "q4_1" | "iq4_nl" | "q5_0" | "q5_1" | null;
    /** Element type of the V cache; a quantised one needs `flash_attn`. */
    cache_type_v: "f32" | "f16" | "bf16" | "q8_0" | "q4_0" | "q4_1" | "iq4_nl" | "q5_0" | "q5_1" | null;
    /** Layers whose experts stay in RAM. */
    n_cpu_moe: number | null;
    /** Placement of tensors by name: `pattern=device`, comma-separated. */
    override_tensor: string | null;
    /** `on`: the engine chooses how many layers go to the GPUs, unless `ngl` is below 999, so that a file that is larger than the GPUs runs with the rest of its layers in RAM. It is what builds from b7400 do by themselves, and is not sent; older builds can't. `off`: all layers go to the GPUs, or as many as `ngl` says. */
    fit_memory: "on" | "off" | null;
    /** Draft GGUF for speculative decoding, relative to the models base directory or below `/models/`. */
    draft_model_path: string | null;
    /** Tokens that are drafted at once. */
    draft_n: number | null;
    /** Least probability at which a drafted token is tried. */
    draft_p_min: number | null;
    /** Projector file of a multimodal model. */
    mmproj: string | null;
    /** How the embeddings of all tokens become one. Unset: what the file says. A reranker needs `rank` here; without it, it makes vectors and refuses to rank. */
    pooling: "none" | "mean" | "cls" | "last" | "rank" | null;
    /** Renders chat templates with Jinja; tools need it. */
    jinja: boolean | null;
  };
  LlamacppModelChange: {
    /** For people; without it, the served name. */
    name?: string;
    /** What clients send in `model`; unique among models that are not archived. May also be sent as `served_model_name`. */
    served_name?: string;
    /** What the model is for. */
    task?: Schemas["Task"];
    engine_type?: "llamacpp" | "secondary";
    /** Access token of the model hub. Never shown. An empty text leaves it as it is. */
    hub_token?: string | null;
    /** An archived model can't be started, and its served name is free. */
    archived?: boolean;
    /** Files that are named and not there are no reason to refuse: they come later. */
    force?: boolean;
    /** Sets better values than the defaults, where nothing is set; see docs/reference/defaults.md. */
    profile?: "tuned" | null;
    /** `offline`: the engine uses local files only. `online`: the engine fetches the weights from the model hub and caches them. Unset: online when there is a `repo_id` and no `local_path`. */
    mode?: "online" | "offline" | null;
    /** Model-hub repository (online mode). */
    repo_id?: string | null;
    /** Folder or `.gguf` file, relative to the models base directory. */
    local_path?: string | null;
    /** Tokenizer: a repository of the hub, which the engine fetches and caches, or a folder below `/models/`. vLLM needs it for GGUF files. */
    tokenizer?: string | null;
    /** Folder with a `config.json`, for GGUF on vLLM. */
    hub_config_path?: string | null;
    /** Container image that replaces the gateway's default for this engine. */
    engine_image?: string | null;
    /** Longest time in `loading` before the model counts as failed. Unset: 600 for vLLM, 300 for llama.cpp. */
    startup_timeout_sec?: number | null;
    /** `on_failure`: the gateway starts a failed model again, after 1 s, then 5 s, 30 s, 2 min and 10 min, except where that can't help (a file, an image or an engine that does not exist). `never`: it stays `failed` until somebody starts it. */
    restart_policy?: "never" | "on_failure" | null;
    /** With `restart_policy` `on_failure`: the number of restarts within an hour after which the model stays `failed`. Restarts before a run of 10 minutes do not count. */
    restart_limit?: number | null;
    /** When the gateway starts, it starts this model again if the model should run and its engine has ended meanwhile, as after a restart of the machine. */
    autostart?: boolean | null;
    /** Longest wait for the first byte of an answer. */
    request_timeout_sec?: number | null;
    /** Longest silence between two bytes of an answer. */
    stream_idle_timeout_sec?: number | null;
    /** Where the model runs. `auto`: on GPUs if the machine has any. */
    device?: "auto" | "cuda" | "cpu" | null;
    /** Indexes of the GPUs that the engine may use. Unset: all of them. */
    selected_gpus?: number[] | null;
    /** RAM that the container may use, including `/dev/shm` and files in RAM; an engine that needs more is ended. Unset: no limit but the machine's. It has no effect where engines are processes. */
    memory_limit_gib?: number | null;
    /** The container can't change its own files; only `/tmp` (in RAM) and the hub cache are writable. Unset: true for llama.cpp, false for vLLM, whose compilers write elsewhere too. It has no effect where engines are processes. */
    read_only_root?: boolean | null;
    /** Jinja chat template, or (llama.cpp) the name of a built-in one. */
    chat_template?: string | null;
    /** File with a Jinja chat template. */
    chat_template_file?: string | null;
    /** LoRA adapters as `name=path`, paths relative to the models base directory. On vLLM clients call each by its own name, like a model; llama.cpp applies all of them at once. */
    lora_adapters?: string[] | null;
    /** Seed of the sampler. */
    seed?: number | null;
    /** Arguments that are added to the engine's command as they are. Arguments that the gateway sets itself are refused. */
    extra_args?: string[] | null;
    /** Environment variables that are added to the container. Variables that the gateway sets itself are refused. */
    extra_env?: Record<string, string> | null;
    /** Parameters that the gateway adds to requests without them. */
    request_defaults?: Record<string, unknown> | null;
    /** Context length, shared by all slots; 0 means the model's own. */
    context_size?: number | null;
    /** Layers that are kept on GPUs. 999 means as many as fit; with `fit_memory` `off`, and in builds before b7400, it means all. The default counts only where the container gets GPUs. */
    ngl?: number | null;
    /** Prompt tokens that the engine handles together; 128 to 2048 is advisable. For embeddings the default is the context, at most 8192, since the engine refuses an input that is longer than a batch. */
    batch_size?: number | null;
    /** Physical batch; embedding inputs must fit into it. Unset: 512, or, for embeddings, the same as the batch. */
    ubatch_size?: number | null;
    /** CPU threads; never more than the machine has CPUs. */
    threads?: number | null;
    /** Requests that the engine answers at the same time. Unset: the engine chooses. */
    parallel_slots?: number | null;
    /** Share of each GPU, comma-separated; the shares add up to about 1. */
    tensor_split?: string | null;
    /** How the model is split over GPUs. */
    split_mode?: "none" | "layer" | "row" | null;
    /** GPU that gets what is not split. */
    main_gpu?: number | null;
    /** Flash attention; a quantised V cache needs it. */
    flash_attn?: "on" | "off" | "auto" | null;
    /** Locks the weights in RAM. */
    mlock?: boolean | null;
    /** Reads the weights instead of mapping the file. */
    no_mmap?: boolean | null;
    /** How the weights get into memory; it overrides `mlock` and `no_mmap`. */
    load_mode?: "auto" | "none" | "mmap" | "mlock" | "mmap+mlock" | "dio" | null;
    /** Placement on machines with several memory nodes. */
    numa?: "isolate" | "distribute" | "none" | null;
    /** Base frequency of RoPE. Unset: the model's. */
    rope_freq_base?: number | null;
    /** Frequency scale of RoPE. 1.0 is not sent: it stands for what the model's file says, which is 1.0 unless the model was made for another scale. */
    rope_freq_scale?: number | null;
    /** Element type of the K cache. */
    cache_type_k?: "f32" | "f16" | "bf16" | "q8_0" | "q4_0" | "q4_1" | "iq4_nl" | "q5_0" | "q5_1" | null;
    /** Element type of the V cache; a quantised one needs `flash_attn`. */
    cache_type_v?: "f32" | "f16" | "bf16" | "q8_0" | "q4_0" | "q4_1" | "iq4_nl" | "q5_0" | "q5_1" | null;
    /** Layers whose experts stay in RAM. */
    n_cpu_moe?: number | null;
    /** Placement of tensors by name: `pattern=device`, comma-separated. */
    override_tensor?: string | null;
    /** `on`: the engine chooses how many layers go to the GPUs, unless `ngl` is below 999, so that a file that is larger than the GPUs runs with the rest of its layers in RAM. It is what builds from b7400 do by themselves, and is not sent; older builds can't. `off`: all layers go to the GPUs, or as many as `ngl` says. */
    fit_memory?: "on" | "off" | null;
    /** Draft GGUF for speculative decoding, relative to the models base directory or below `/models/`. */
    draft_model_path?: string | null;
    /** Tokens that are drafted at once. */
    draft_n?: number | null;
    /** Least probability at which a drafted token is tried. */
    draft_p_min?: number | null;
    /** Projector file of a multimodal model. */
    mmproj?: string | null;
    /** How the embeddings of all tokens become one. Unset: what the file says. A reranker needs `rank` here; without it, it makes vectors and refuses to rank. */
    pooling?: "none" | "mean" | "cls" | "last" | "rank" | null;
    /** Renders chat templates with Jinja; tools need it. */
    jinja?: boolean | null;
  };
  LlamacppModelForm: {
    /** For people; without it, the served name. */
    name?: string;
    /** What clients send in `model`; unique among models that are not archived. May also be sent as `served_model_name`. */
    served_name?: string;
    /** What the model is for. */
    task?: Schemas["Task"];
    engine_type?: "llamacpp" | "secondary";
    /** Access token of the model hub. Never shown. An empty text leaves it as it is. */
    hub_token?: string | null;
    /** An archived model can't be started, and its served name is free. */
    archived?: boolean;
    /** Files that are named and not there are no reason to refuse: they come later. */
    force?: boolean;
    /** Sets better values than the defaults, where nothing is set; see docs/reference/defaults.md. */
    profile?: "tuned" | null;
    /** `offline`: the engine uses local files only. `online`: the engine fetches the weights from the model hub and caches them. Unset: online when there is a `repo_id` and no `local_path`. */
    mode?: "online" | "offline" | null;
    /** Model-hub repository (online mode). */
    repo_id?: string | null;
    /** Folder or `.gguf` file, relative to the models base directory. */
    local_path?: string | null;
    /** Tokenizer: a repository of the hub, which the engine fetches and caches, or a folder below `/models/`. vLLM needs it for GGUF files. */
    tokenizer?: string | null;
    /** Folder with a `config.json`, for GGUF on vLLM. */
    hub_config_path?: string | null;
    /** Container image that replaces the gateway's default for this engine. */
    engine_image?: string | null;
    /** Longest time in `loading` before the model counts as failed. Unset: 600 for vLLM, 300 for llama.cpp. */
    startup_timeout_sec?: number | null;
    /** `on_failure`: the gateway starts a failed model again, after 1 s, then 5 s, 30 s, 2 min and 10 min, except where that can't help (a file, an image or an engine that does not exist). `never`: it stays `failed` until somebody starts it. */
    restart_policy?: "never" | "on_failure" | null;
    /** With `restart_policy` `on_failure`: the number of restarts within an hour after which the model stays `failed`. Restarts before a run of 10 minutes do not count. */
    restart_limit?: number | null;
    /** When the gateway starts, it starts this model again if the model should run and its engine has ended meanwhile, as after a restart of the machine. */
    autostart?: boolean | null;
    /** Longest wait for the first byte of an answer. */
    request_timeout_sec?: number | null;
    /** Longest silence between two bytes of an answer. */
    stream_idle_timeout_sec?: number | null;
    /** Where the model runs. `auto`: on GPUs if the machine has any. */
    device?: "auto" | "cuda" | "cpu" | null;
    /** Indexes of the GPUs that the engine may use. Unset: all of them. */
    selected_gpus?: number[] | null;
    /** RAM that the container may use, including `/dev/shm` and files in RAM; an engine that needs more is ended. Unset: no limit but the machine's. It has no effect where engines are processes. */
    memory_limit_gib?: number | null;
    /** The container can't change its own files; only `/tmp` (in RAM) and the hub cache are writable. Unset: true for llama.cpp, false for vLLM, whose compilers write elsewhere too. It has no effect where engines are processes. */
    read_only_root?: boolean | null;
    /** Jinja chat template, or (llama.cpp) the name of a built-in one. */
    chat_template?: string | null;
    /** File with a Jinja chat template. */
    chat_template_file?: string | null;
    /** LoRA adapters as `name=path`, paths relative to the models base directory. On vLLM clients call each by its own name, like a model; llama.cpp applies all of them at once. */
    lora_adapters?: string[] | null;
    /** Seed of the sampler. */
    seed?: number | null;
    /** Arguments that are added to the engine's command as they are. Arguments that the gateway sets itself are refused. */
    extra_args?: string[] | null;
    /** Environment variables that are added to the container. Variables that the gateway sets itself are refused. */
    extra_env?: Record<string, string> | null;
    /** Parameters that the gateway adds to requests without them. */
    request_defaults?: Record<string, unknown> | null;
    /** Context length, shared by all slots; 0 means the model's own. */
    context_size?: number | null;
    /** Layers that are kept on GPUs. 999 means as many as fit; with `fit_memory` `off`, and in builds before b7400, it means all. The default counts only where the container gets GPUs. */
    ngl?: number | null;
    /** Prompt tokens that the engine handles together; 128 to 2048 is advisable. For embeddings the default is the context, at most 8192, since the engine refuses an input that is longer than a batch. */
    batch_size?: number | null;
    /** Physical batch; embedding inputs must fit into it. Unset: 512, or, for embeddings, the same as the batch. */
    ubatch_size?: number | null;
    /** CPU threads; never more than the machine has CPUs. */
    threads?: number | null;
    /** Requests that the engine answers at the same time. Unset: the engine chooses. */
    parallel_slots?: number | null;
    /** Share of each GPU, comma-separated; the shares add up to about 1. */
    tensor_split?: string | null;
    /** How the model is split over GPUs. */
    split_mode?: "none" | "layer" | "row" | null;
    /** GPU that gets what is not split. */
    main_gpu?: number | null;
    /** Flash attention; a quantised V cache needs it. */
    flash_attn?: "on" | "off" | "auto" | null;
    /** Locks the weights in RAM. */
    mlock?: boolean | null;
    /** Reads the weights instead of mapping the file. */
    no_mmap?: boolean | null;
    /** How the weights get into memory; it overrides `mlock` and `no_mmap`. */
    load_mode?: "auto" | "none" | "mmap" | "mlock" | "mmap+mlock" | "dio" | null;
    /** Placement on machines with several memory nodes. */
    numa?: "isolate" | "distribute" | "none" | null;
    /** Base frequency of RoPE. Unset: the model's. */
    rope_freq_base?: number | null;
    /** Frequency scale of RoPE. 1.0 is not sent: it stands for what the model's file says, which is 1.0 unless the model was made for another scale. */
    rope_freq_scale?: number | null;
    /** Element type of the K cache. */
    cache_type_k?: "f32" | "f16" | "bf16" | "q8_0" | "q4_0" | "q4_1" | "iq4_nl" | "q5_0" | "q5_1" | null;
    /** Element type of the V cache; a quantised one needs `flash_attn`. */
    cache_type_v?: "f32" | "f16" | "bf16" | "q8_0" | "q4_0" | "q4_1" | "iq4_nl" | "q5_0" | "q5_1" | null;
    /** Layers whose experts stay in RAM. */
    n_cpu_moe?: number | null;
    /** Placement of tensors by name: `pattern=device`, comma-separated. */
    override_tensor?: string | null;
    /** `on`: the engine chooses how many layers go to the GPUs, unless `ngl` is below 999, so that a file that is larger than the GPUs runs with the rest of its layers in RAM. It is what builds from b7400 do by themselves, and is not sent; older builds can't. `off`: all layers go to the GPUs, or as many as `ngl` says. */
    fit_memory?: "on" | "off" | null;
    /** Draft GGUF for speculative decoding, relative to the models base directory or below `/models/`. */
    draft_model_path?: string | null;
    /** Tokens that are drafted at once. */
    draft_n?: number | null;
    /** Least probability at which a drafted token is tried. */
    draft_p_min?: number | null;
    /** Projector file of a multimodal model. */
    mmproj?: string | null;
    /** How the embeddings of all tokens become one. Unset: what the file says. A reranker needs `rank` here; without it, it makes vectors and refuses to rank. */
    pooling?: "none" | "mean" | "cls" | "last" | "rank" | null;
    /** Renders chat templates with Jinja; tools need it. */
    jinja?: boolean | null;
  };
  Me: {
    id: number;
    username: string;
    role: Schemas["Role"];
    org_id: number;
  };
  MemoryEstimate: {
    weights_gb: number;
    kv_cache_gb: number;
    overhead_gb: number;
    total_gb: number;
    per_gpu_gb: number[];
    /** What each entry of `per_gpu_gb` is for. */
    gpu_parts: Schemas["GpuParts"][];
    fits: boolean | null;
    available_gb: number | null;
    gpu_indexes: number[];
    compute_gb: number;
    weights_by_type_gb: Record<string, number>;
    host_ram_gb: number;
    host_ram_available_gb: number | null;
    /** Tokens. */
    max_context_that_fits: number | null;
    /** Tokens of context that the model was trained for; `null` if its files don't say so. */
    trained_for: number | null;
    /** Where the engine chooses and not all of them fit; the others stay in RAM. */
    layers_on_gpus: number | null;
    notes: string[];
  };
  Model: Schemas["VllmModel"] | Schemas["LlamacppModel"];
  ModelState: "stopped" | "starting" | "loading" | "running" | "stopping" | "failed";
  NewKey: {
    id: number;
    name: string;
    /** The first characters of the token. */
    prefix: string;
    scopes: string;
    models: string[] | null;
    org_id: number;
    org_name: string;
    user_id: number | null;
    username: string | null;
    ip_allowlist: string[];
    expires_at: string | null;
    created_at: string;
    last_used_at: string | null;
    revoked_at: string | null;
    status: "active" | "expired" | "revoked" | "holder_disabled";
    rpm_limit: number | null;
    tpm_limit: number | null;
    max_concurrency: number | null;
    max_streams: number | null;
    budget_tokens_day: number | null;
    budget_tokens_month: number | null;
    limit_mode: Schemas["LimitMode"];
    /** The limits in force: with the gateway's defaults, under the limits of the user and the organisation. */
    effective_limits: Schemas["Limits"];
    budget: Schemas["Budgets"] | null;
    /** For `If-Match`: it changes with everything of the key that can be changed. */
    revision: string;
    /** Shown in this answer only. */
    token: string;
  };
  NewToken: {
    id: number;
    name: string;
    /** The first characters of the token. */
    prefix: string;
    scopes: string;
    user_id: number;
    username: string;
    org_id: number;
    created_at: string;
    expires_at: string;
    /** Written every 10 seconds. */
    last_used_at: string | null;
    status: "active" | "expired" | "holder_disabled";
    /** Shown in this answer only. */
    token: string;
  };
  Organisation: {
    id: number;
    name: string;
    enabled: boolean;
    user_count: number;
    key_count: number;
    created_at: string;
    rpm_limit: number | null;
    tpm_limit: number | null;
    max_concurrency: number | null;
    max_streams: number | null;
    budget_tokens_day: number | null;
    budget_tokens_month: number | null;
    budget: Schemas["Budgets"] | null;
    /** For `If-Match`: it changes with everything of the organisation that can be changed. */
    revision: string;
  };
  OwnEvent: {
    event?: "models";
    id?: string;
    retry?: number;
    data: string;
  };
  PasswordLink: {
    /** Shown in this answer only. */
    token: string;
    /** The address of the link, below the address of the gateway. The token is in its fragment, which browsers don't send, so that it is in the logs of no proxy. */
    path: string;
    expires_at: string;
  };
  Point: {
    /** The end of the interval. */
    ts: string;
    value: number;
  };
  RegistryEntry: {
    served_name: string;
    /** The first of `urls`. */
    url: string;
    urls: string[];
    /** What the model is called there, if not by the served name. */
    upstream_model: string | null;
    task: Schemas["Task"];
    /** `null`: the engine was entered by hand. */
    engine_type: Schemas["Engine"] | null;
    source: "managed" | "manual";
    /** At least one of the addresses is healthy. */
    healthy: boolean;
    breaker: "closed" | "half_open" | "open";
  };
  Role: "user" | "org_admin" | "admin" | "owner";
  Session: {
    /** It opens nothing. */
    id: string;
    created_at: string;
    /** To about a tenth of `SESSION_TTL_HOURS`. */
    last_used_at: string;
    expires_at: string;
    /** Whether it is the session of this request. */
    current: boolean;
  };
  Standing: {
    rpm_limit: {
      limit: number;
      used: number;
      remaining: number;
      /** Seconds, rounded up, until nothing of it is used any more: for a rate as time passes, for a budget at the end of its period. `null` for limits on concurrent requests. */
      reset_sec: number | null;
    } | null;
    tpm_limit: {
      limit: number;
      used: number;
      remaining: number;
      /** Seconds, rounded up, until nothing of it is used any more: for a rate as time passes, for a budget at the end of its period. `null` for limits on concurrent requests. */
      reset_sec: number | null;
    } | null;
    max_concurrency: {
      limit: number;
      used: number;
      remaining: number;
      /** Seconds, rounded up, until nothing of it is used any more: for a rate as time passes, for a budget at the end of its period. `null` for limits on concurrent requests. */
      reset_sec: number | null;
    } | null;
    max_streams: {
      limit: number;
      used: number;
      remaining: number;
      /** Seconds, rounded up, until nothing of it is used any more: for a rate as time passes, for a budget at the end of its period. `null` for limits on concurrent requests. */
      reset_sec: number | null;
    } | null;
    budget_tokens_day: {
      limit: number;
      used: number;
      remaining: number;
      /** Seconds, rounded up, until nothing of it is used any more: for a rate as time passes, for a budget at the end of its period. `null` for limits on concurrent requests. */
      reset_sec: number | null;
    } | null;
    budget_tokens_month: {
      limit: number;
      used: number;
      remaining: number;
      /** Seconds, rounded up, until nothing of it is used any more: for a rate as time passes, for a budget at the end of its period. `null` for limits on concurrent requests. */
      reset_sec: number | null;
    } | null;
  };
  Task: "generate" | "embed";
  Token: {
    id: number;
    name: string;
    /** The first characters of the token. */
    prefix: string;
    scopes: string;
    user_id: number;
    username: string;
    org_id: number;
    created_at: string;
    expires_at: string;
    /** Written every 10 seconds. */
    last_used_at: string | null;
    status: "active" | "expired" | "holder_disabled";
  };
  Upstream: {
    served_name: string;
    /** `null` while the engine does not run. */
    url: string | null;
    task: Schemas["Task"];
    /** `null`: the engine was entered by hand. */
    engine_type: Schemas["Engine"] | null;
    source: "managed" | "manual";
    /** The engine gets requests, and its last probe succeeded. */
    healthy: boolean;
    /** RFC 3339. */
    last_ok_at: string | null;
    last_error: string | null;
    /** Latency of the last probe that was answered. */
    latency_ms: number | null;
    /** Probes that failed in a row. */
    consecutive_failures: number;
    breaker: {
      state: "closed" | "half_open" | "open";
      /** Whose requests the breaker refuses while it is not closed: `all`, or `some` (only callers whose requests got errors; the others are served). */
      keeps_away: "all" | "some" | null;
      cooldown_remaining_sec: number;
    };
    in_flight: number;
    /** Models that the engine lists at `/v1/models`. */
    models: string[];
    /** The last probes, oldest first. */
    history: ({
      /** RFC 3339. */
      ts: string;
      ok: boolean;
      latency_ms: number | null;
      error: string | null;
    })[];
  };
  UsageRow: {
    id: string;
    /** The request id that the client saw. It need not be unique. */
    req_id: string;
    created_at: string;
    /** `null` for requests of a browser session. */
    key_id: number | null;
    key_prefix: string | null;
    user_id: number | null;
    org_id: number | null;
    /** The served name as it was asked for, cut to 200 characters. */
    model_name: string;
    task: Schemas["Task"];
    /** The path of the endpoint. */
    endpoint: string;
    stream: boolean;
    prompt_tokens: number;
    completion_tokens: number;
    total_tokens: number;
    /** Prompt tokens that came from the engine's prefix cache, if the engine reports them. */
    cached_tokens: number | null;
    /** The gateway estimated the tokens, because the engine reported none. */
    estimated: boolean;
    latency_ms: number;
    /** Time to the first byte of a streamed answer. */
    ttft_ms: number | null;
    status_code: number;
    outcome: "ok" | "client_error" | "upstream_error" | "client_closed" | "timeout" | "rejected";
    /** The number of requests that the row stands for. Requests of one caller that were refused for the same reason may share a row. */
    requests: number;
  };
  User: {
    id: number;
    username: string;
    role: Schemas["Role"];
    org_id: number;
    org_name: string;
    enabled: boolean;
    created_at: string;
    last_login_at: string | null;
    /** Served names that all keys and sessions of the user may call; `null` is all. */
    models: string[] | null;
    rpm_limit: number | null;
    tpm_limit: number | null;
    max_concurrency: number | null;
    max_streams: number | null;
    budget_tokens_day: number | null;
    budget_tokens_month: number | null;
    budget: Schemas["Budgets"] | null;
    /** For `If-Match`: it changes with everything of the user that can be changed. */
    revision: string;
  };
  VllmModel: {
    id: number;
    name: string;
    served_name: string;
    task: Schemas["Task"];
    engine_type: "vllm";
    archived: boolean;
    hub_token_set: boolean;
    created_at: string;
    state: Schemas["ModelState"];
    state_reason: string | null;
    needs_apply: boolean;
    needs_apply_reason: string | null;
    rolled_back: {
      reason: string | null;
      diagnosis: Schemas["Diagnosis"] | null;
      task: Schemas["Task"];
      settings: Record<string, unknown>;
    } | null;
    diagnosis: Schemas["Diagnosis"] | null;
    /** What the gateway does by itself after failures (`restart_policy`). `null`: nothing. */
    restart: {
      /** Restarts within the last hour that count towards `restart_limit`. */
      attempts: number;
      last_at: string | null;
      /** When the next one is due. */
      next_at: string | null;
      /** It stays `failed` until somebody starts it. */
      given_up: boolean;
    } | null;
    /** The simulator stands in for the engine: what it answers means nothing. */
    simulator: boolean;
    /** Fields that are not set: what is shown of them is the default. */
    defaulted: string[];
    updated_at: string;
    /** For `If-Match`: it changes with everything of the record that can be changed, but for the hub's token. */
    revision: string;
    /** `offline`: the engine uses local files only. `online`: the engine fetches the weights from the model hub and caches them. Unset: online when there is a `repo_id` and no `local_path`. */
    mode: "online" | "offline";
    /** Model-hub repository (online mode). */
    repo_id: string | null;
    /** Folder or `.gguf` file, relative to the models base directory. */
    local_path: string | null;
    /** Tokenizer: a repository of the hub, which the engine fetches and caches, or a folder below `/models/`. vLLM needs it for GGUF files. */
    tokenizer: string | null;
    /** Folder with a `config.json`, for GGUF on vLLM. */
    hub_config_path: string | null;
    /** Container image that replaces the gateway's default for this engine. */
    engine_image: string | null;
    /** Longest time in `loading` before the model counts as failed. Unset: 600 for vLLM, 300 for llama.cpp. */
    startup_timeout_sec: number | null;
    /** `on_failure`: the gateway starts a failed model again, after 1 s, then 5 s, 30 s, 2 min and 10 min, except where that can't help (a file, an image or an engine that does not exist). `never`: it stays `failed` until somebody starts it. */
    restart_policy: "never" | "on_failure" | null;
    /** With `restart_policy` `on_failure`: the number of restarts within an hour after which the model stays `failed`. Restarts before a run of 10 minutes do not count. */
    restart_limit: number | null;
    /** When the gateway starts, it starts this model again if the model should run and its engine has ended meanwhile, as after a restart of the machine. */
    autostart: boolean | null;
    /** Longest wait for the first byte of an answer. */
    request_timeout_sec: number | null;
    /** Longest silence between two bytes of an answer. */
    stream_idle_timeout_sec: number | null;
    /** Where the model runs. `auto`: on GPUs if the machine has any. */
    device: "auto" | "cuda" | "cpu" | null;
    /** Indexes of the GPUs that the engine may use. Unset: all of them. */
    selected_gpus: number[] | null;
    /** RAM that the container may use, including `/dev/shm` and files in RAM; an engine that needs more is ended. Unset: no limit but the machine's. It has no effect where engines are processes. */
    memory_limit_gib: number | null;
    /** The container can't change its own files; only `/tmp` (in RAM) and the hub cache are writable. Unset: true for llama.cpp, false for vLLM, whose compilers write elsewhere too. It has no effect where engines are processes. */
    read_only_root: boolean | null;
    /** Jinja chat template, or (llama.cpp) the name of a built-in one. */
    chat_template: string | null;
    /** File with a Jinja chat template. */
    chat_template_file: string | null;
    /** LoRA adapters as `name=path`, paths relative to the models base directory. On vLLM clients call each by its own name, like a model; llama.cpp applies all of them at once. */
    lora_adapters: string[] | null;
    /** Seed of the sampler. */
    seed: number | null;
    /** Arguments that are added to the engine's command as they are. Arguments that the gateway sets itself are refused. */
    extra_args: string[] | null;
    /** Environment variables that are added to the container. Variables that the gateway sets itself are refused. */
    extra_env: Record<string, string> | null;
    /** Parameters that the gateway adds to requests without them. */
    request_defaults: Record<string, unknown> | null;
    /** Type of weights and activations. */
    dtype: "auto" | "half" | "float16" | "bfloat16" | "float" | "float32" | null;
    /** Quantisation method. Unset: read from the checkpoint. */
    quantization: string | null;
    /** GPUs over which each layer is split; at most the number of GPUs of the machine. */
    tensor_parallel_size: number | null;
    /** Stages over which the layers are spread; adds latency between stages. */
    pipeline_parallel_size: number | null;
    /** Share of each GPU's memory that the engine may use. Without GPUs it is a share of the RAM, and the default does not count. */
    gpu_memory_utilization: number | null;
    /** Context length. Unset: the checkpoint's. */
    max_model_len: number | null;
    /** Sequences that are generated together. */
    max_num_seqs: number | null;
    /** Tokens that the engine handles in one step. */
    max_num_batched_tokens: number | null;
    /** Element type of the KV cache. */
    kv_cache_dtype: "auto" | "fp8" | "fp8_e4m3" | "fp8_e5m2" | null;
    /** Size of the KV cache on each GPU, or in RAM where there is no GPU. In RAM it is 4 GiB unless this or `gpu_memory_utilization` is set. */
    kv_cache_memory_bytes: number | null;
    /** Tokens in a block of the KV cache. 16 is not sent: the engine takes it by itself if its attention backend can, and some backends need more. */
    block_size: 1 | 8 | 16 | 32 | null;
    /** Runs without CUDA graphs: the engine starts faster and generates slower. */
    enforce_eager: boolean | null;
    /** Batch sizes for which CUDA graphs are captured, comma-separated; only without `enforce_eager`. */
    cuda_graph_sizes: string | null;
    /** Part of each GPU's weights that is kept in CPU memory. */
    cpu_offload_gb: number | null;
    /** CPU memory into which the KV cache may spill. */
    swap_space_gb: number | null;
    /** Reuses the KV cache for prompts that begin alike. */
    enable_prefix_caching: boolean | null;
    /** Hash function for cached blocks. */
    prefix_caching_hash_algo: "builtin" | "sha256" | "sha256_cbor" | "sha256_cbor_64bit" | "xxhash" | "xxhash_cbor" | null;
    /** Cuts long prompts into pieces; between them other requests generate. */
    enable_chunked_prefill: boolean | null;
    /** Attention implementation. */
    attention_backend: string | null;
    /** Runs Python code that comes with the checkpoint. */
    trust_remote_code: boolean | null;
    /** Load format of GGUF on vLLM (up to 0.23). */
    gguf_weight_format: "auto" | "gguf" | "ggml" | null;
    /** Separates reasoning from the answer. */
    reasoning_parser: string | null;
    /** Reads tool calls out of the answer; `enable_auto_tool_choice` needs it. */
    tool_call_parser: string | null;
    /** Lets the model choose tools by itself. */
    enable_auto_tool_choice: boolean | null;
  };
  VllmModelChange: {
    /** For people; without it, the served name. */
    name?: string;
    /** What clients send in `model`; unique among models that are not archived. May also be sent as `served_model_name`. */
    served_name?: string;
    /** What the model is for. */
    task?: Schemas["Task"];
    engine_type?: "vllm" | "primary";
    /** Access token of the model hub. Never shown. An empty text leaves it as it is. */
    hub_token?: string | null;
    /** An archived model can't be started, and its served name is free. */
    archived?: boolean;
    /** Files that are named and not there are no reason to refuse: they come later. */
    force?: boolean;
    /** Sets better values than the defaults, where nothing is set; see docs/reference/defaults.md. */
    profile?: "tuned" | null;
    /** `offline`: the engine uses local files only. `online`: the engine fetches the weights from the model hub and caches them. Unset: online when there is a `repo_id` and no `local_path`. */
    mode?: "online" | "offline" | null;
    /** Model-hub repository (online mode). */
    repo_id?: string | null;
    /** Folder or `.gguf` file, relative to the models base directory. */
    local_path?: string | null;
    /** Tokenizer: a repository of the hub, which the engine fetches and caches, or a folder below `/models/`. vLLM needs it for GGUF files. */
    tokenizer?: string | null;
    /** Folder with a `config.json`, for GGUF on vLLM. */
    hub_config_path?: string | null;
    /** Container image that replaces the gateway's default for this engine. */
    engine_image?: string | null;
    /** Longest time in `loading` before the model counts as failed. Unset: 600 for vLLM, 300 for llama.cpp. */
    startup_timeout_sec?: number | null;
    /** `on_failure`: the gateway starts a failed model again, after 1 s, then 5 s, 30 s, 2 min and 10 min, except where that can't help (a file, an image or an engine that does not exist). `never`: it stays `failed` until somebody starts it. */
    restart_policy?: "never" | "on_failure" | null;
    /** With `restart_policy` `on_failure`: the number of restarts within an hour after which the model stays `failed`. Restarts before a run of 10 minutes do not count. */
    restart_limit?: number | null;
    /** When the gateway starts, it starts this model again if the model should run and its engine has ended meanwhile, as after a restart of the machine. */
    autostart?: boolean | null;
    /** Longest wait for the first byte of an answer. */
    request_timeout_sec?: number | null;
    /** Longest silence between two bytes of an answer. */
    stream_idle_timeout_sec?: number | null;
    /** Where the model runs. `auto`: on GPUs if the machine has any. */
    device?: "auto" | "cuda" | "cpu" | null;
    /** Indexes of the GPUs that the engine may use. Unset: all of them. */
    selected_gpus?: number[] | null;
    /** RAM that the container may use, including `/dev/shm` and files in RAM; an engine that needs more is ended. Unset: no limit but the machine's. It has no effect where engines are processes. */
    memory_limit_gib?: number | null;
    /** The container can't change its own files; only `/tmp` (in RAM) and the hub cache are writable. Unset: true for llama.cpp, false for vLLM, whose compilers write elsewhere too. It has no effect where engines are processes. */
    read_only_root?: boolean | null;
    /** Jinja chat template, or (llama.cpp) the name of a built-in one. */
    chat_template?: string | null;
    /** File with a Jinja chat template. */
    chat_template_file?: string | null;
    /** LoRA adapters as `name=path`, paths relative to the models base directory. On vLLM clients call each by its own name, like a model; llama.cpp applies all of them at once. */
    lora_adapters?: string[] | null;
    /** Seed of the sampler. */
    seed?: number | null;
    /** Arguments that are added to the engine's command as they are. Arguments that the gateway sets itself are refused. */
    extra_args?: string[] | null;
    /** Environment variables that are added to the container. Variables that the gateway sets itself are refused. */
    extra_env?: Record<string, string> | null;
    /** Parameters that the gateway adds to requests without them. */
    request_defaults?: Record<string, unknown> | null;
    /** Type of weights and activations. */
    dtype?: "auto" | "half" | "float16" | "bfloat16" | "float" | "float32" | null;
    /** Quantisation method. Unset: read from the checkpoint. */
    quantization?: string | null;
    /** GPUs over which each layer is split; at most the number of GPUs of the machine. */
    tensor_parallel_size?: number | null;
    /** Stages over which the layers are spread; adds latency between stages. */
    pipeline_parallel_size?: number | null;
    /** Share of each GPU's memory that the engine may use. Without GPUs it is a share of the RAM, and the default does not count. */
    gpu_memory_utilization?: number | null;
    /** Context length. Unset: the checkpoint's. */
    max_model_len?: number | null;
    /** Sequences that are generated together. */
    max_num_seqs?: number | null;
    /** Tokens that the engine handles in one step. */
    max_num_batched_tokens?: number | null;
    /** Element type of the KV cache. */
    kv_cache_dtype?: "auto" | "fp8" | "fp8_e4m3" | "fp8_e5m2" | null;
    /** Size of the KV cache on each GPU, or in RAM where there is no GPU. In RAM it is 4 GiB unless this or `gpu_memory_utilization` is set. */
    kv_cache_memory_bytes?: number | null;
    /** Tokens in a block of the KV cache. 16 is not sent: the engine takes it by itself if its attention backend can, and some backends need more. */
    block_size?: 1 | 8 | 16 | 32 | null;
    /** Runs without CUDA graphs: the engine starts faster and generates slower. */
    enforce_eager?: boolean | null;
    /** Batch sizes for which CUDA graphs are captured, comma-separated; only without `enforce_eager`. */
    cuda_graph_sizes?: string | null;
    /** Part of each GPU's weights that is kept in CPU memory. */
    cpu_offload_gb?: number | null;
    /** CPU memory into which the KV cache may spill. */
    swap_space_gb?: number | null;
    /** Reuses the KV cache for prompts that begin alike. */
    enable_prefix_caching?: boolean | null;
    /** Hash function for cached blocks. */
    prefix_caching_hash_algo?: "builtin" | "sha256" | "sha256_cbor" | "sha256_cbor_64bit" | "xxhash" | "xxhash_cbor" | null;
    /** Cuts long prompts into pieces; between them other requests generate. */
    enable_chunked_prefill?: boolean | null;
    /** Attention implementation. */
    attention_backend?: string | null;
    /** Runs Python code that comes with the checkpoint. */
    trust_remote_code?: boolean | null;
    /** Load format of GGUF on vLLM (up to 0.23). */
    gguf_weight_format?: "auto" | "gguf" | "ggml" | null;
    /** Separates reasoning from the answer. */
    reasoning_parser?: string | null;
    /** Reads tool calls out of the answer; `enable_auto_tool_choice` needs it. */
    tool_call_parser?: string | null;
    /** Lets the model choose tools by itself. */
    enable_auto_tool_choice?: boolean | null;
  };
  VllmModelForm: {
    /** For people; without it, the served name. */
    name?: string;
    /** What clients send in `model`; unique among models that are not archived. May also be sent as `served_model_name`. */
    served_name?: string;
    /** What the model is for. */
    task?: Schemas["Task"];
    engine_type: "vllm" | "primary";
    /** Access token of the model hub. Never shown. An empty text leaves it as it is. */
    hub_token?: string | null;
    /** An archived model can't be started, and its served name is free. */
    archived?: boolean;
    /** Files that are named and not there are no reason to refuse: they come later. */
    force?: boolean;
    /** Sets better values than the defaults, where nothing is set; see docs/reference/defaults.md. */
    profile?: "tuned" | null;
    /** `offline`: the engine uses local files only. `online`: the engine fetches the weights from the model hub and caches them. Unset: online when there is a `repo_id` and no `local_path`. */
    mode?: "online" | "offline" | null;
    /** Model-hub repository (online mode). */
    repo_id?: string | null;
    /** Folder or `.gguf` file, relative to the models base directory. */
    local_path?: string | null;
    /** Tokenizer: a repository of the hub, which the engine fetches and caches, or a folder below `/models/`. vLLM needs it for GGUF files. */
    tokenizer?: string | null;
    /** Folder with a `config.json`, for GGUF on vLLM. */
    hub_config_path?: string | null;
    /** Container image that replaces the gateway's default for this engine. */
    engine_image?: string | null;
    /** Longest time in `loading` before the model counts as failed. Unset: 600 for vLLM, 300 for llama.cpp. */
    startup_timeout_sec?: number | null;
    /** `on_failure`: the gateway starts a failed model again, after 1 s, then 5 s, 30 s, 2 min and 10 min, except where that can't help (a file, an image or an engine that does not exist). `never`: it stays `failed` until somebody starts it. */
    restart_policy?: "never" | "on_failure" | null;
    /** With `restart_policy` `on_failure`: the number of restarts within an hour after which the model stays `failed`. Restarts before a run of 10 minutes do not count. */
    restart_limit?: number | null;
    /** When the gateway starts, it starts this model again if the model should run and its engine has ended meanwhile, as after a restart of the machine. */
    autostart?: boolean | null;
    /** Longest wait for the first byte of an answer. */
    request_timeout_sec?: number | null;
    /** Longest silence between two bytes of an answer. */
    stream_idle_timeout_sec?: number | null;
    /** Where the model runs. `auto`: on GPUs if the machine has any. */
    device?: "auto" | "cuda" | "cpu" | null;
    /** Indexes of the GPUs that the engine may use. Unset: all of them. */
    selected_gpus?: number[] | null;
    /** RAM that the container may use, including `/dev/shm` and files in RAM; an engine that needs more is ended. Unset: no limit but the machine's. It has no effect where engines are processes. */
    memory_limit_gib?: number | null;
    /** The container can't change its own files; only `/tmp` (in RAM) and the hub cache are writable. Unset: true for llama.cpp, false for vLLM, whose compilers write elsewhere too. It has no effect where engines are processes. */
    read_only_root?: boolean | null;
    /** Jinja chat template, or (llama.cpp) the name of a built-in one. */
    chat_template?: string | null;
    /** File with a Jinja chat template. */
    chat_template_file?: string | null;
    /** LoRA adapters as `name=path`, paths relative to the models base directory. On vLLM clients call each by its own name, like a model; llama.cpp applies all of them at once. */
    lora_adapters?: string[] | null;
    /** Seed of the sampler. */
    seed?: number | null;
    /** Arguments that are added to the engine's command as they are. Arguments that the gateway sets itself are refused. */
    extra_args?: string[] | null;
    /** Environment variables that are added to the container. Variables that the gateway sets itself are refused. */
    extra_env?: Record<string, string> | null;
    /** Parameters that the gateway adds to requests without them. */
    request_defaults?: Record<string, unknown> | null;
    /** Type of weights and activations. */
    dtype?: "auto" | "half" | "float16" | "bfloat16" | "float" | "float32" | null;
    /** Quantisation method. Unset: read from the checkpoint. */
    quantization?: string | null;
    /** GPUs over which each layer is split; at most the number of GPUs of the machine. */
    tensor_parallel_size?: number | null;
    /** Stages over which the layers are spread; adds latency between stages. */
    pipeline_parallel_size?: number | null;
    /** Share of each GPU's memory that the engine may use. Without GPUs it is a share of the RAM, and the default does not count. */
    gpu_memory_utilization?: number | null;
    /** Context length. Unset: the checkpoint's. */
    max_model_len?: number | null;
    /** Sequences that are generated together. */
    max_num_seqs?: number | null;
    /** Tokens that the engine handles in one step. */
    max_num_batched_tokens?: number | null;
    /** Element type of the KV cache. */
    kv_cache_dtype?: "auto" | "fp8" | "fp8_e4m3" | "fp8_e5m2" | null;
    /** Size of the KV cache on each GPU, or in RAM where there is no GPU. In RAM it is 4 GiB unless this or `gpu_memory_utilization` is set. */
    kv_cache_memory_bytes?: number | null;
    /** Tokens in a block of the KV cache. 16 is not sent: the engine takes it by itself if its attention backend can, and some backends need more. */
    block_size?: 1 | 8 | 16 | 32 | null;
    /** Runs without CUDA graphs: the engine starts faster and generates slower. */
    enforce_eager?: boolean | null;
    /** Batch sizes for which CUDA graphs are captured, comma-separated; only without `enforce_eager`. */
    cuda_graph_sizes?: string | null;
    /** Part of each GPU's weights that is kept in CPU memory. */
    cpu_offload_gb?: number | null;
    /** CPU memory into which the KV cache may spill. */
    swap_space_gb?: number | null;
    /** Reuses the KV cache for prompts that begin alike. */
    enable_prefix_caching?: boolean | null;
    /** Hash function for cached blocks. */
    prefix_caching_hash_algo?: "builtin" | "sha256" | "sha256_cbor" | "sha256_cbor_64bit" | "xxhash" | "xxhash_cbor" | null;
    /** Cuts long prompts into pieces; between them other requests generate. */
    enable_chunked_prefill?: boolean | null;
    /** Attention implementation. */
    attention_backend?: string | null;
    /** Runs Python code that comes with the checkpoint. */
    trust_remote_code?: boolean | null;
    /** Load format of GGUF on vLLM (up to 0.23). */
    gguf_weight_format?: "auto" | "gguf" | "ggml" | null;
    /** Separates reasoning from the answer. */
    reasoning_parser?: string | null;
    /** Reads tool calls out of the answer; `enable_auto_tool_choice` needs it. */
    tool_call_parser?: string | null;
    /** Lets the model choose tools by itself. */
    enable_auto_tool_choice?: boolean | null;
  };
}

/** The data of each event of `GET /admin/events` and `GET /auth/events`. */
export interface LiveEvents {
  snapshot: ({
    id: number;
    served_name: string;
    state: Schemas["ModelState"];
    state_reason: string | null;
    /** The running engine differs from what a start would make now. */
    needs_apply: boolean;
    archived: boolean;
    /** Why the last start failed, in one line. */
    diagnosis: string | null;
    pull: {
      done: number;
      /** The size, as far as it is known yet. */
      known: number;
    } | null;
  })[];
  reset: ({
    id: number;
    served_name: string;
    state: Schemas["ModelState"];
    state_reason: string | null;
    /** The running engine differs from what a start would make now. */
    needs_apply: boolean;
    archived: boolean;
    /** Why the last start failed, in one line. */
    diagnosis: string | null;
    pull: {
      done: number;
      /** The size, as far as it is known yet. */
      known: number;
    } | null;
  })[];
  model: {
    id: number;
    served_name: string;
    state: Schemas["ModelState"];
    state_reason: string | null;
    /** The running engine differs from what a start would make now. */
    needs_apply: boolean;
    archived: boolean;
    /** Why the last start failed, in one line. */
    diagnosis: string | null;
  };
  model_deleted: {
    id: number;
  };
  pull: {
    id: number;
    /** `null` when it ended. */
    pull: {
      done: number;
      /** The size, as far as it is known yet. */
      known: number;
    } | null;
  };
  log: {
    id: number;
    line: string;
  };
  log_end: {
    id: number;
  };
  job: {
    /** The id of a deployment job, such as `deploy-3`. */
    id: string | null;
    job: "image_load" | "export" | "model_export" | "import" | "db_restore";
    /** The file, as the request named it. */
    path: string;
    state: "running" | "done" | "failed" | "cancelled";
    /** What it does just now, for people. */
    step: string;
    done_bytes: number;
    total_bytes: number;
  };
  restore_drill: {
    ok: boolean;
    at: string;
    /** The backup, package or dump; `null` if there was none. */
    backup: string | null;
    /** Why it failed. */
    error: string | null;
  };
  lag: {
    /** The number of events that the reader missed. */
    missed: number;
  };
  models: ({
    served_name: string;
    task: Schemas["Task"];
    /** `null`: the engine runs elsewhere. */
    engine_type: Schemas["Engine"] | null;
    /** `null`: the engine runs elsewhere, and nobody here starts or stops it. */
    state: Schemas["ModelState"] | null;
    /** Requests are served now. */
    callable: boolean;
  })[];
}

export interface Operations {
  /** The audit log */
  listAuditLog: {
    path: undefined;
    query: {
      /** The largest number of entries to return. */
      limit?: number;
      /** The number of entries to skip. */
      offset?: number;
      /** The first moment of the range. */
      from?: string;
      /** The moment after the last one of the range. */
      to?: string;
      /** Only what this user did: an id, or the user's name at that time, in upper or lower case. */
      actor?: string;
      /** Only this kind of action. */
      action?: "owner.bootstrap" | "session.login" | "session.login_failed" | "session.logout" | "session.end" | "user.password" | "user.password_link" | "user.password_link_use" | "user.create" | "user.change" | "user.delete" | "org.create" | "org.change" | "org.delete" | "key.create" | "key.change" | "key.revoke" | "token.create" | "token.revoke" | "model.create" | "model.change" | "model.delete" | "model.start" | "model.stop" | "model.apply" | "base_dir.change" | "registry.add" | "registry.remove" | "image.load" | "package.export" | "package.import" | "database.restore";
      /** Only actions on this kind of object. */
      object_type?: "user" | "org" | "key" | "token" | "model" | "base_dir" | "registry" | "image" | "package";
      /** Only actions on the object with this id. */
      object_id?: string;
    };
    body: undefined;
    answer: ({
      /** It counts up without gaps. */
      seq: number;
      at: string;
      actor_type: "user" | "anonymous" | "settings";
      actor_id: number | null;
      /** The actor's name at the time of the action. */
      actor: string | null;
      /** Rows of an older version may have words that this version does not know. */
      action: string;
      object_type: "user" | "org" | "key" | "token" | "model" | "base_dir" | "registry" | "image" | "package";
      object_id: string;
      /** The fields that changed, as they were. */
      before: Record<string, unknown> | null;
      /** The fields that changed, as they were afterwards. */
      after: Record<string, unknown> | null;
      ip: string | null;
      request_id: string | null;
      user_agent: string | null;
      /** The hash of the row before this one. */
      prev_hash: string;
      /** SHA-256. */
      hash: string;
    })[];
  };
  /** Create the first owner */
  bootstrapOwner: {
    path: undefined;
    query: undefined;
    body: {
      /** Without control characters, invisible characters and blanks at its ends. */
      username: string;
      password: string;
      /** Without control characters, invisible characters and blanks at its ends. */
      org_name: string;
      setup_token?: string | null;
    };
    answer: {
      status: "ok";
      owner_id: number;
      org_id: number;
    };
  };
  /** Whether a dump is there and can be restored */
  checkDatabaseDump: {
    path: undefined;
    query: undefined;
    body: {
      /** The package's folder, inside the folders of `EXPORT_DIRS`. */
      output_dir: string;
      /** The dump, relative to `output_dir`; `db/dump.sql` if it is left out. */
      db_file?: string | null;
      /** The folder of the base package, for a difference: it has most pieces of the dump. */
      base_dir?: string | null;
    };
    answer: {
      exists: boolean;
      /** Relative to `output_dir`. */
      path: string;
      size_bytes: number | null;
      modified_at: string | null;
      /** Whether it can be restored, as far as can be told without a database: its grammar, its values, and that it is complete. */
      valid: boolean;
      /** When it was written, as it says. */
      created_at: string | null;
      schema_version: number | null;
      /** Who wrote it. */
      kind: string | null;
      /** Rows by table. */
      tables: Record<string, number>;
      problems: string[];
      /** What is wrong with it, though it can be restored: rows that a gateway would leave out. */
      warnings: string[];
    };
  };
  /** How large a package would be */
  estimateDeploymentSize: {
    path: undefined;
    query: undefined;
    body: {
      /** As in `exportDeployment`. */
      output_dir: string;
      /** `true` if it is left out. */
      include_images?: boolean | null;
      /** `true` if it is left out. */
      include_db?: boolean | null;
      /** `false` if it is left out. */
      tar_models?: boolean | null;
      /** `false` if it is left out. */
      tar_hub_cache?: boolean | null;
    };
    answer: {
      estimated_bytes: number;
      estimated_formatted: string;
      /** The parts, for people: `container_images`, `database`, `models`, `hub_cache`, `gateway`. */
      breakdown: Record<string, string>;
      /** The same in bytes. */
      breakdown_bytes: Record<string, number>;
      disk_space: {
        sufficient: boolean;
        available_bytes: number;
        available_formatted: string;
        required_bytes: number;
        required_formatted: string;
        /** The free space that is required, as a multiple of the estimate. */
        safety_margin: number;
      };
      /** Images that are not on the machine: their size is not in the estimate. */
      missing_images: string[];
    };
  };
  /** Export the installation into a package */
  exportDeployment: {
    path: undefined;
    query: undefined;
    body: {
      /** The package's folder: relative to the first folder of `EXPORT_DIRS`, or inside one of them. It is made if it is not there. If there is a package in it, what has not changed stays, and the old package stays whole until the new one is. */
      output_dir: string;
      /** Container images; `true` if it is left out. */
      include_images?: boolean | null;
      /** A dump of the database, without secrets; `true` if it is left out. */
      include_db?: boolean | null;
      /** The settings, secrets masked; `true` if it is left out. */
      include_configs?: boolean | null;
      /** A manifest for every model; `true` if it is left out. */
      include_models_manifest?: boolean | null;
      /** The weights in the models base directory; `false` if it is left out. */
      tar_models?: boolean | null;
      /** The hub cache; `false` if it is left out. */
      tar_hub_cache?: boolean | null;
      /** The values of models' environment variables (`extra_env`) that do not look like secrets; `false` if it is left out. */
      include_env?: boolean | null;
      /** Images that are not on the machine are pulled; `true` if it is left out. Otherwise the export fails. */
      allow_pull_images?: boolean | null;
      /** Size of parts in bytes, 1 MiB or more, for disks that hold no large files, such as those with FAT32. Without it, files are in the package as they are. */
      part_size?: number | null;
      /** A package, or a copy of the `manifest.json` of one, inside the folders of `EXPORT_DIRS`: only what it lacks is exported. */
      since?: string | null;
    };
    answer: Schemas["DeploymentJob"];
  };
  /** Export one model into a package */
  exportModel: {
    path: {
      /** What was given when it was made. */
      id: number;
    };
    query: undefined;
    body: {
      /** As in `exportDeployment`; `model-<id>` if it is left out. */
      output_dir?: string | null;
      /** The model's image; `true` if it is left out. */
      include_images?: boolean | null;
      /** The model's weights; `true` if it is left out. */
      tar_models?: boolean | null;
      /** The model's repository in the hub cache; `true` if it is left out. */
      tar_hub_cache?: boolean | null;
      /** As in `exportDeployment`. */
      include_env?: boolean | null;
      /** As in `exportDeployment`. */
      allow_pull_images?: boolean | null;
      /** As in `exportDeployment`. */
      part_size?: number | null;
      /** As in `exportDeployment`. */
      since?: string | null;
    };
    answer: Schemas["DeploymentJob"];
  };
  /** Import a whole package */
  importPackage: {
    path: undefined;
    query: undefined;
    body: {
      /** The package's folder, inside the folders of `EXPORT_DIRS`. */
      output_dir: string;
      /** The folder of the base package, for a difference. */
      base_dir?: string | null;
      /** Loads images that are missing; `true` if it is left out. */
      include_images?: boolean | null;
      /** Whether the name of an image of this machine moves to another image of the package. A package whose origin is proven (`PACKAGE_TRUSTED_KEY`) may do that in any case. */
      replace_images?: boolean | null;
      /** Puts weights in place that are missing; `true` if it is left out. */
      include_weights?: boolean | null;
      /** Puts files of the hub cache in place that are missing; `true` if it is left out. */
      include_hub_cache?: boolean | null;
      /** Makes the models of the package; `true` if it is left out. A model that is there with the same served name is left as it is. */
      include_models?: boolean | null;
      /** Only says what would be done. */
      dry_run?: boolean | null;
    };
    answer: {
      dry_run: boolean;
      /** Served names of models that would be made. */
      new_models: string[];
      /** Served names of models that are left as they are, because there is one of that name. */
      present_models: string[];
      warnings: string[];
      can_import: boolean;
      plan: {
        /** Images that would be loaded. */
        load_images: string[];
        /** Those of them whose name another image of this machine has now. That one stays, without the name. */
        replaced_images: string[];
        /** Images that are there already. */
        present_images: string[];
        /** Images that models need, and that are neither in the package nor on this machine. */
        missing_images: string[];
        /** Files of weights that would be put in place. */
        new_files: number;
        /** Their bytes. */
        new_bytes: number;
        /** Files that are there with the same size. They are compared before anything is put in place, and left as they are. */
        present_files: number;
        /** Files that are there with another size: the import is refused. */
        conflicting_files: string[];
        /** Free bytes where weights would go. */
        available_bytes: number;
        /** What the package itself lacks, such as a base that was not named. */
        problems: string[];
      };
    } | Schemas["DeploymentJob"];
  };
  /** Import one model from a package */
  importModel: {
    path: undefined;
    query: undefined;
    body: {
      /** The package's folder, inside the folders of `EXPORT_DIRS`. */
      output_dir: string;
      /** The model's manifest in the package: `model-7.json`. */
      manifest_file: string;
      /** What to do if another model has its served name: `error` (if it is left out) refuses, `rename` appends `-IMPORTED`, `-IMPORTED-2` and so on to both names. */
      conflict_strategy?: "error" | "rename" | null;
      /** Only says what would be done. */
      dry_run?: boolean | null;
      /** Another served name than that of the manifest. */
      served_name_override?: string | null;
      /** Another `local_path` than that of the manifest, below the models base directory. The package's weights are then left where they are. */
      local_path_override?: string | null;
      /** Loads the model's image, if the package has it; `true` if it is left out. */
      include_images?: boolean | null;
      /** Whether the name of an image of this machine moves to another image of the package. A package whose origin is proven (`PACKAGE_TRUSTED_KEY`) may do that in any case. */
      replace_images?: boolean | null;
      /** Puts the model's weights in place, if the package has them; `true` if it is left out. */
      include_weights?: boolean | null;
      /** The folder of the base package, for a difference. */
      base_dir?: string | null;
    };
    answer: {
      dry_run: boolean;
      /** `null` if the manifest can't become a model; `validation_errors` says why. */
      would_create: {
        name: string;
        served_name: string;
        task: Schemas["Task"];
        engine_type: Schemas["Engine"];
        image: string | null;
        local_path: string | null;
        repo_id: string | null;
      } | null;
      conflict: {
        served_name: string;
        message: string;
      } | null;
      warnings: string[];
      validation_errors: string[];
      can_import: boolean;
      /** What would be done with images and files. */
      plan: {
        /** Images that would be loaded. */
        load_images: string[];
        /** Those of them whose name another image of this machine has now. That one stays, without the name. */
        replaced_images: string[];
        /** Images that are there already. */
        present_images: string[];
        /** Images that models need, and that are neither in the package nor on this machine. */
        missing_images: string[];
        /** Files of weights that would be put in place. */
        new_files: number;
        /** Their bytes. */
        new_bytes: number;
        /** Files that are there with the same size. They are compared before anything is put in place, and left as they are. */
        present_files: number;
        /** Files that are there with another size: the import is refused. */
        conflicting_files: string[];
        /** Free bytes where weights would go. */
        available_bytes: number;
        /** What the package itself lacks, such as a base that was not named. */
        problems: string[];
      };
    } | {
      id: number;
      name: string;
      served_name: string;
      warnings: string[];
    };
  };
  /** The last 20 deployment jobs, newest first */
  listDeploymentJobs: {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: Schemas["DeploymentJob"][];
  };
  /** One deployment job */
  getDeploymentJob: {
    path: {
      /** What was given when it was made. */
      id: string;
    };
    query: undefined;
    body: undefined;
    answer: Schemas["DeploymentJob"];
  };
  /** Cancel a deployment job */
  cancelDeploymentJob: {
    path: {
      /** What was given when it was made. */
      id: string;
    };
    query: undefined;
    body: undefined;
    answer: Schemas["DeploymentJob"];
  };
  /** The models in a package */
  listModelManifests: {
    path: undefined;
    query: {
      /** The package's folder, inside the folders of `EXPORT_DIRS`. */
      output_dir: string;
    };
    body: undefined;
    answer: ({
      /** What `import-model` calls it: `model-7.json`. */
      manifest_file: string;
      /** Whether the manifest can be read and is as the package says. */
      ok: boolean;
      /** Why it is not `ok`. */
      problem: string | null;
      /** Its id on the gateway that exported it. */
      model_id: number;
      name: string;
      served_name: string;
      task: string | null;
      engine_type: string | null;
      /** The image that it ran in; `null` for a program. */
      image: string | null;
      image_in_package: boolean;
      weights_in_package: boolean;
      /** Bytes of its weights in the package. */
      weights_bytes: number;
      local_path: string | null;
      repo_id: string | null;
      /** Secrets that are not in the package and have to be set again. */
      redacted: string[];
    })[];
  };
  /** What is in a package */
  getPackageContents: {
    path: undefined;
    query: {
      /** The package's folder, inside the folders of `EXPORT_DIRS`. */
      output_dir: string;
    };
    body: undefined;
    answer: {
      id: string;
      /** RFC 3339, UTC. */
      created_at: string;
      /** Version of the gateway that wrote it. */
      gateway_version: string;
      /** Files that it has itself, and their bytes. */
      files: number;
      size_bytes: number;
      /** The id of the package that this one is the difference to. */
      base: string | null;
      images: ({
        /** The name by which models ask for it. */
        reference: string;
        version: string | null;
        /** As in Go: `amd64`, `arm64`. */
        architecture: string;
        size_bytes: number;
      })[];
      database: {
        /** `sqlite` or `postgres`: where it came from. */
        kind: string;
        schema_version: number;
        /** Rows of all tables. */
        rows: number;
        size_bytes: number;
      } | null;
      /** Bytes of weights below the models base directory. */
      weights_bytes: number;
      /** Bytes of the hub cache. */
      hub_cache_bytes: number;
      gateway: {
        version: string;
        /** Operating system and architecture: `linux-x86_64`. */
        platform: string;
      } | null;
      programs: ({
        /** `vllm` or `llamacpp`. */
        engine: string;
        command: string;
        version: string | null;
      })[];
      settings: boolean;
      /** Whether it has a bill of materials. */
      sbom: boolean;
      /** The key that it is signed with; `null` if it is not signed. The signature is not checked here, as the gateway has no public keys: `gantry package verify --key` does. */
      key_id: string | null;
      /** Why its signature can't be read. */
      signature_problem: string | null;
    };
  };
  /** Replace the database by a dump */
  restoreDatabase: {
    path: undefined;
    query: undefined;
    body: {
      /** The package's folder, inside the folders of `EXPORT_DIRS`. */
      output_dir: string;
      /** Writes the database as it is into `db/pre_restore_backup` of that folder first, and reads it back; `true` if it is left out. */
      backup_first?: boolean | null;
      /** What is in the database is replaced and deleted for ever; `false` if it is left out. Without it, a restore into a database that has users is refused. */
      drop_existing?: boolean | null;
      /** The dump, relative to `output_dir`; `db/dump.sql` if it is left out. */
      db_file?: string | null;
      /** The folder of the base package, for a difference: it has most pieces of the dump. */
      base_dir?: string | null;
    };
    answer: Schemas["DeploymentJob"];
  };
  /** The deployment job that runs, or the last one */
  getDeploymentStatus: {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: Schemas["DeploymentJob"] | {
      status: "idle";
    };
  };
  /** Every field of a model with type, bounds, default, unit and help */
  listModelFields: {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: ({
      name: string;
      /** `null`: both engines have it. */
      engine_type: Schemas["Engine"] | null;
      /** The heading under which forms show it. */
      group: string;
      /** JSON Schema of the value. */
      schema: Record<string, unknown>;
      default: unknown;
      /** The default is for models with this task only; `null`: for all. */
      default_task: Schemas["Task"] | null;
      /** What the engine does by itself, in words; `null` without a default. */
      engine_default: string | null;
      /** The value that the profile `tuned` sets, for models with this task only, if one is named. */
      tuned: {
        value: unknown;
        why: string;
        task: Schemas["Task"] | null;
      } | null;
      unit: string | null;
      help: string;
      owner_only: boolean;
      examples: string[];
    })[];
  };
  /** Events for pages */
  streamEvents: {
    path: undefined;
    query: {
      /** The model whose log is sent as well. */
      logs?: number;
    };
    body: undefined;
    answer: unknown;
  };
  /** List keys */
  listKeys: {
    path: undefined;
    query: {
      /** The largest number of entries to return. */
      limit?: number;
      /** The number of entries to skip. */
      offset?: number;
      /** The column to sort by. With `-` in front or `:desc` behind, the largest comes first. */
      sort?: "id" | "-id" | "id:asc" | "id:desc" | "name" | "-name" | "name:asc" | "name:desc" | "created_at" | "-created_at" | "created_at:asc" | "created_at:desc" | "last_used_at" | "-last_used_at" | "last_used_at:asc" | "last_used_at:desc";
      /** Only those of this organisation. */
      org_id?: number;
      /** Only those of this user. */
      user_id?: number;
      /** Only those that have this status now. */
      status?: "active" | "expired" | "revoked" | "holder_disabled";
      /** Part of the name or of the prefix. */
      q?: string;
    };
    body: undefined;
    answer: Schemas["Key"][];
  };
  /** Create a key */
  createKey: {
    path: undefined;
    query: undefined;
    body: {
      org_id?: number | null;
      user_id?: number | null;
      /** Without control characters, invisible characters and blanks at its ends. */
      name?: string | null;
      /** What the key may call. Without it a new key may call everything. */
      scopes?: string | ("chat" | "completions" | "embeddings")[] | null;
      /** Served names that the key may call; `null` is all. */
      models?: string[] | null;
      /** IP addresses and CIDR ranges that the key may be used from. `null` or `[]`: from everywhere. */
      ip_allowlist?: string | string[] | null;
      /** A time in the future. */
      expires_at?: string | null;
      rpm_limit?: number | null;
      tpm_limit?: number | null;
      max_concurrency?: number | null;
      max_streams?: number | null;
      budget_tokens_day?: number | null;
      budget_tokens_month?: number | null;
      /** `null` is `enforce`. */
      limit_mode?: Schemas["LimitMode"] | null;
    };
    answer: Schemas["NewKey"];
  };
  /** Change a key */
  changeKey: {
    path: {
      /** What was given when it was made. */
      id: number;
    };
    query: undefined;
    body: {
      /** Without control characters, invisible characters and blanks at its ends. */
      name?: string | null;
      /** What the key may call. */
      scopes?: string | ("chat" | "completions" | "embeddings")[];
      /** Served names that the key may call; `null` is all. */
      models?: string[] | null;
      /** IP addresses and CIDR ranges that the key may be used from. `null` or `[]`: from everywhere. */
      ip_allowlist?: string | string[] | null;
      /** A time in the future. */
      expires_at?: string | null;
      rpm_limit?: number | null;
      tpm_limit?: number | null;
      max_concurrency?: number | null;
      max_streams?: number | null;
      budget_tokens_day?: number | null;
      budget_tokens_month?: number | null;
      /** `null` is `enforce`. */
      limit_mode?: Schemas["LimitMode"] | null;
    };
    answer: Schemas["Key"];
  };
  /** Revoke a key */
  revokeKey: {
    path: {
      /** What was given when it was made. */
      id: number;
    };
    query: undefined;
    body: undefined;
    answer: {
      id: number;
      status: "deleted";
    };
  };
  /** List models */
  listModels: {
    path: undefined;
    query: {
      /** The largest number of entries to return. */
      limit?: number;
      /** The number of entries to skip. */
      offset?: number;
      /** Archived ones too. */
      archived?: "true" | "false" | "1" | "0";
    };
    body: undefined;
    answer: Schemas["Model"][];
  };
  /** Create a model */
  createModel: {
    path: undefined;
    query: undefined;
    body: Schemas["VllmModelForm"] | Schemas["LlamacppModelForm"];
    answer: Schemas["Model"];
  };
  /** The models base directory */
  getModelsBaseDir: {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: Schemas["BaseDir"];
  };
  /** Choose the models base directory */
  changeModelsBaseDir: {
    path: undefined;
    query: undefined;
    body: {
      base_dir: string;
    };
    answer: Schemas["BaseDir"];
  };
  /** Preview the command of values that are not saved */
  previewModel: {
    path: undefined;
    query: undefined;
    body: Schemas["VllmModelForm"] | Schemas["LlamacppModelForm"];
    answer: Schemas["DryRun"];
  };
  /** What a repository of the model hub is */
  getHubConfig: {
    path: undefined;
    query: {
      /** `owner/name`, or `name` as of `gpt2`. */
      repo_id: string;
      /** The model whose token is sent. */
      model_id?: number;
    };
    body: undefined;
    answer: {
      repo_id: string;
      /** `config.json` as it is; `null` if the repository has none, as those of GGUF files. */
      config: unknown;
      summary: Schemas["HubSummary"];
      engine_recommendation: Schemas["EngineRecommendation"];
      /** `null` if the hub did not list them. */
      files: {
        gguf: ({
          /** The file, or its first part. */
          path: string;
          parts: number;
          /** The size of all parts; `null` if the hub does not say. */
          size_bytes: number | null;
          /** The quantisation, if the name tells it. */
          quant_type: string | null;
          /** The `repo_id` of a model record that serves this one; `null` if llama.cpp can't be told it apart from another. */
          repo_id: string | null;
        })[];
        safetensors: ({
          path: string;
          /** `null` if the hub does not say. */
          size_bytes: number | null;
        })[];
        /** Encoders of pictures or sound for the GGUF files. */
        projectors: ({
          path: string;
          /** `null` if the hub does not say. */
          size_bytes: number | null;
        })[];
      } | null;
    };
  };
  /** What a folder, or a single `.gguf` file, holds */
  inspectFolder: {
    path: undefined;
    query: {
      /** Its path from the models base directory; `.` is the directory itself. */
      folder: string;
    };
    body: undefined;
    answer: Schemas["Inspection"];
  };
  /** Folders of the models base directory */
  listLocalFolders: {
    path: undefined;
    query: {
      /** The largest number of entries to return. */
      limit?: number;
      /** The number of entries to skip. */
      offset?: number;
    };
    body: undefined;
    answer: {
      name: string;
      /** Path relative to the models directory, as `inspect-folder` takes it. */
      path: string;
      has_gguf: boolean;
      has_safetensors: boolean;
      /** Size of all files in it, as deep as an inspection looks. */
      size_bytes: number;
    }[];
  };
  /** Metrics of all engines */
  listModelMetrics: {
    path: undefined;
    query: {
      /** The largest number of entries to return. */
      limit?: number;
      /** The number of entries to skip. */
      offset?: number;
    };
    body: undefined;
    answer: ({
      model_id: number;
      served_name: string;
      engine_type: Schemas["Engine"];
      state: Schemas["ModelState"];
      requests_running: number | null;
      requests_waiting: number | null;
      /** Share of the KV cache that is in use, 0 to 1. */
      kv_cache_usage: number | null;
      /** Prompt tokens as the engine counts them: vLLM includes those that the cache held, llama.cpp does not. */
      prompt_tokens_total: number | null;
      generation_tokens_total: number | null;
      ttft_p50_ms: number | null;
      ttft_p95_ms: number | null;
      /** Time from the arrival of a request to its last token. */
      latency_p50_ms: number | null;
      latency_p95_ms: number | null;
      /** Who measured the percentiles. */
      latency_source: "engine" | "gateway" | null;
      /** Share of the prompt tokens that the cache held, 0 to 1. */
      prefix_cache_hit_rate: number | null;
      /** Why a model that runs has no metrics. */
      error: string | null;
    })[];
  };
  /** The routing table */
  listRegistry: {
    path: undefined;
    query: {
      /** The largest number of entries to return. */
      limit?: number;
      /** The number of entries to skip. */
      offset?: number;
    };
    body: undefined;
    answer: Schemas["RegistryEntry"][];
  };
  /** Add an engine that runs elsewhere, or replace it */
  addRegistryEntry: {
    path: undefined;
    query: undefined;
    body: {
      /** Without control characters, invisible characters and blanks at its ends. */
      served_name: string;
      /** `http[s]://host[:port][/base]`, without user or query. */
      url?: string;
      /** Several addresses of the same model, instead of `url`. Each request goes to one of them. */
      urls?: string[];
      task?: Schemas["Task"] | null;
      /** What the model is called there, if not by the served name. Requests name it so; answers pass as they are. */
      upstream_model?: string | null;
      /** The engine's own key. It is never shown. */
      api_key?: string | null;
    };
    answer: Schemas["RegistryEntry"];
  };
  /** Remove an engine that runs elsewhere */
  removeRegistryEntryByQuery: {
    path: undefined;
    query: {
      /** The name of the entry. */
      served_name: string;
    };
    body: undefined;
    answer: {
      id: string;
      status: "deleted";
    };
  };
  /** Change an engine that runs elsewhere */
  changeRegistryEntry: {
    path: {
      /** A served name. A slash may stand as it is. */
      served_name: string;
    };
    query: undefined;
    body: {
      /** `http[s]://host[:port][/base]`, without user or query. */
      url?: string;
      /** Several addresses of the same model, instead of `url`. Each request goes to one of them. */
      urls?: string[];
      task?: Schemas["Task"] | null;
      /** What the model is called there, if not by the served name. Requests name it so; answers pass as they are. */
      upstream_model?: string | null;
      /** The engine's own key. It is never shown. */
      api_key?: string | null;
    };
    answer: Schemas["RegistryEntry"];
  };
  /** Remove an engine that runs elsewhere */
  removeRegistryEntry: {
    path: {
      /** A served name. A slash may stand as it is. */
      served_name: string;
    };
    query: undefined;
    body: undefined;
    answer: {
      id: string;
      status: "deleted";
    };
  };
  /** One model */
  getModel: {
    path: {
      /** What was given when it was made. */
      id: number;
    };
    query: undefined;
    body: undefined;
    answer: Schemas["Model"];
  };
  /** Change a model */
  changeModel: {
    path: {
      /** What was given when it was made. */
      id: number;
    };
    query: undefined;
    body: Schemas["VllmModelChange"] | Schemas["LlamacppModelChange"];
    answer: Schemas["Model"];
  };
  /** Delete a model */
  deleteModel: {
    path: {
      /** What was given when it was made. */
      id: number;
    };
    query: undefined;
    body: undefined;
    answer: {
      id: number;
      status: "deleted";
    };
  };
  /** Apply a model's settings */
  applyModel: {
    path: {
      /** What was given when it was made. */
      id: number;
    };
    query: {
      /** If these settings do not get ready, the last ones that did are put back and started. */
      rollback?: "true" | "false" | "1" | "0";
      /** Starts it although its files are for another task. */
      force?: "true" | "false" | "1" | "0";
    };
    body: undefined;
    answer: Schemas["Model"];
  };
  /** Preview a saved model's command */
  previewSavedModel: {
    path: {
      /** What was given when it was made. */
      id: number;
    };
    query: undefined;
    body: Schemas["VllmModelChange"] | Schemas["LlamacppModelChange"];
    answer: Schemas["DryRun"];
  };
  /** The timeline of a model */
  listModelEvents: {
    path: {
      /** What was given when it was made. */
      id: number;
    };
    query: {
      /** The largest number of entries to return. */
      limit?: number;
      /** The number of entries to skip. */
      offset?: number;
    };
    body: undefined;
    answer: ({
      at: string;
      from: Schemas["ModelState"];
      to: Schemas["ModelState"];
      reason: string | null;
      detail: string | null;
      /** How long the state before lasted; `null` if there was none. */
      duration_ms: number | null;
    })[];
  };
  /** The engine's log */
  getModelLogs: {
    path: {
      /** What was given when it was made. */
      id: number;
    };
    query: {
      /** The number of lines. */
      tail?: number;
      /** Only what was printed then or later, to the second. */
      since?: string;
      /** Go on, as server-sent events. */
      follow?: "true" | "false" | "1" | "0";
      /** Say why the model does not run. */
      diagnose?: "true" | "false" | "1" | "0";
      /** Keep the colours that the engine prints: ANSI escape sequences (`ESC [ … m`), and no others. With `follow` only. */
      colors?: "true" | "false" | "1" | "0";
      /** The log of the run before the current one, as far as it is kept: its last 5,000 lines, or 1 MiB. */
      previous?: "true" | "false" | "1" | "0";
    };
    body: undefined;
    answer: {
      logs: string;
      lines: number;
      /** There were more lines before these. */
      truncated: boolean;
      /** The log is of an engine that an earlier command started: the last one made none, or none yet. */
      earlier: boolean;
      /** With `previous`: when the engine of that run was removed. It is missing if there was no run before. */
      until?: string;
      diagnosis?: Schemas["Diagnosis"];
      summary?: string;
    };
  };
  /** Readiness of a model */
  getModelReadiness: {
    path: {
      /** What was given when it was made. */
      id: number;
    };
    query: undefined;
    body: undefined;
    answer: {
      status: "ready" | "loading" | "stopped" | "error";
      detail: string;
      state: Schemas["ModelState"];
      state_reason: string | null;
      /** Seconds since the start began, while it is under way. */
      elapsed_sec: number | null;
      /** Seconds after which a start that is not ready fails. */
      timeout_sec: number;
    };
  };
  /** Start a model */
  startModel: {
    path: {
      /** What was given when it was made. */
      id: number;
    };
    query: {
      /** Starts it although its files are for another task. */
      force?: "true" | "false" | "1" | "0";
    };
    body: undefined;
    answer: Schemas["Model"];
  };
  /** Stop a model */
  stopModel: {
    path: {
      /** What was given when it was made. */
      id: number;
    };
    query: undefined;
    body: undefined;
    answer: Schemas["Model"];
  };
  /** Test a running model */
  testModel: {
    path: {
      /** What was given when it was made. */
      id: number;
    };
    query: undefined;
    body: undefined;
    answer: {
      success: boolean;
      test_type: "chat" | "completion" | "embedding" | "rerank";
      request: unknown;
      response: unknown;
      error: string | null;
      latency_ms: number;
      /** RFC 3339. */
      timestamp: string;
    };
  };
  /** List organisations */
  listOrganisations: {
    path: undefined;
    query: {
      /** The largest number of entries to return. */
      limit?: number;
      /** The number of entries to skip. */
      offset?: number;
      /** The column to sort by. With `-` in front or `:desc` behind, the largest comes first. */
      sort?: "id" | "-id" | "id:asc" | "id:desc" | "name" | "-name" | "name:asc" | "name:desc" | "created_at" | "-created_at" | "created_at:asc" | "created_at:desc";
      /** Part of the name. */
      q?: string;
    };
    body: undefined;
    answer: Schemas["Organisation"][];
  };
  /** Create an organisation */
  createOrganisation: {
    path: undefined;
    query: undefined;
    body: {
      /** Without control characters, invisible characters and blanks at its ends. */
      name: string;
      rpm_limit?: number | null;
      tpm_limit?: number | null;
      max_concurrency?: number | null;
      max_streams?: number | null;
      budget_tokens_day?: number | null;
      budget_tokens_month?: number | null;
    };
    answer: Schemas["Organisation"];
  };
  /** Organisations for select inputs */
  lookUpOrganisations: {
    path: undefined;
    query: {
      /** The largest number of entries to return. */
      limit?: number;
      /** The number of entries to skip. */
      offset?: number;
      /** Part of the name. */
      q?: string;
    };
    body: undefined;
    answer: {
      id: number;
      name: string;
    }[];
  };
  /** Change an organisation */
  changeOrganisation: {
    path: {
      /** What was given when it was made. */
      id: number;
    };
    query: undefined;
    body: {
      /** Without control characters, invisible characters and blanks at its ends. */
      name?: string;
      enabled?: boolean;
      rpm_limit?: number | null;
      tpm_limit?: number | null;
      max_concurrency?: number | null;
      max_streams?: number | null;
      budget_tokens_day?: number | null;
      budget_tokens_month?: number | null;
    };
    answer: Schemas["Organisation"];
  };
  /** Delete an organisation */
  deleteOrganisation: {
    path: {
      /** What was given when it was made. */
      id: number;
    };
    query: undefined;
    body: undefined;
    answer: {
      id: number;
      status: "deleted";
    };
  };
  /** What the gateway runs on */
  getCapabilities: {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: {
      os: {
        /** The name of the distribution, as in `Debian GNU/Linux 13 (trixie)`. */
        name: string | null;
        kernel: string | null;
        arch: string;
        /** The version of the Windows Subsystem for Linux. */
        wsl: number | null;
      };
      container: {
        inside: boolean;
        /** The sign by which the container was recognised. */
        evidence: string | null;
      };
      cgroup: {
        /** `null` if none was found. */
        version: number | null;
        memory_limit_mb: number | null;
        /** The CPU limit, in processors. */
        cpu_limit: number | null;
      };
      cpu: {
        model: string | null;
        /** The processors of the machine. */
        count: number;
        /** The processors that the gateway may use. */
        usable: number;
      };
      container_runtime: {
        available: boolean;
        name: string | null;
        version: string | null;
        api_version: string | null;
        /** Why it is not available. */
        detail: string | null;
      };
      supervision: {
        /** The role of this gateway: `supervisor`, `follower` (another gateway supervises), `stranger` (no gateway supervises, and this one must not, because it does not see the containers) or `unknown`. */
        role: "supervisor" | "follower" | "stranger" | "unknown";
        detail: string;
        /** The name of this gateway; `null` if its database is its own. */
        gateway: string | null;
        /** A text that identifies the containers that this gateway sees: two gateways with the same text see the same containers. */
        runtime: string | null;
        /** The name of the gateway that supervises, or did last. */
        supervisor: string | null;
        supervisor_runtime: string | null;
        since: string | null;
        /** Requests for managed models can be served here: the engines listen on this machine's loopback. */
        reaches_engines: boolean;
      };
      gpu_toolkit: Schemas["Found"];
      monitoring: Schemas["Found"][];
    };
  };
  /** Image cache */
  getContainerImages: {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: {
      /** The gateway may not use the network. */
      offline_mode: boolean;
      offline_ready: boolean;
      engines: {
        vllm: {
          image: string;
          /** It is on the machine. */
          cached: boolean;
          /** MiB. */
          size_mb: number | null;
          created: string | null;
        };
        llamacpp: {
          image: string;
          /** It is on the machine. */
          cached: boolean;
          /** MiB. */
          size_mb: number | null;
          created: string | null;
        };
      };
      /** It is empty: Gantry itself is one program and needs no image. */
      infrastructure: unknown[];
      models: ({
        image: string;
        /** It is on the machine. */
        cached: boolean;
        /** MiB. */
        size_mb: number | null;
        created: string | null;
        /** The models that start with it. */
        models: number[];
      })[];
      summary: {
        critical_images_cached: boolean;
        total_images_checked: number;
        cached_count: number;
      };
      recommendations: string[];
    };
  };
  /** Load images from a file */
  loadContainerImages: {
    path: undefined;
    query: undefined;
    body: {
      path: string;
    };
    answer: {
      /** The images of the file. */
      loaded: string[];
    };
  };
  /** GPUs of the machine */
  listGpus: {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: ({
      index: number;
      name: string;
      mem_total_mb: number | null;
      mem_used_mb: number | null;
      /** CUDA's compute capability, as in `8.9`. */
      compute_capability: string | null;
      /** The name of the generation. */
      architecture: string | null;
      /** Flash Attention 2 runs on it. */
      flash_attention_supported: boolean | null;
      vendor: "nvidia" | "amd";
      /** The share of time in which it computed, 0 to 100. */
      util_pct: number | null;
      temperature_c: number | null;
      power_w: number | null;
      /** The processes that hold memory on it, as far as the driver reports them. */
      processes: ({
        pid: number;
        mem_mb: number;
        /** The model whose engine the process belongs to. */
        model_id: number | null;
        served_name: string | null;
      })[];
    })[];
  };
  /** The machine now */
  getHostSummary: {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: {
      ts: string;
      /** The use of all processors together, 0 to 100, since the previous sample (at most 10 s before). */
      cpu_util_pct: number | null;
      cpu_count: number;
      /** The load average over 1, 5 and 15 minutes. */
      load_avg: number[] | null;
      uptime_sec: number | null;
      /** The RAM. If the gateway runs in a container with a memory limit, it is the limit. */
      mem_total_mb: number | null;
      mem_used_mb: number | null;
      swap_total_mb: number | null;
      swap_used_mb: number | null;
      disks: Schemas["FileSystem"][];
      /** The use of the fullest of `disks`. */
      disk_used_pct: number | null;
      /** Bytes a second over all interfaces that are not loopback or a container's. */
      net_rx_bps: number | null;
      net_tx_bps: number | null;
      gpus: Schemas["GpuNow"][];
      gateway: Schemas["GatewayProcess"];
    };
  };
  /** The machine over time */
  getHostTrends: {
    path: undefined;
    query: {
      /** How far back the trends reach. */
      minutes?: number;
    };
    body: undefined;
    answer: {
      /** How many seconds one point covers. Its value is the mean of the samples of that time. */
      interval_sec: number;
      cpu_util_pct: Schemas["Point"][];
      mem_used_mb: Schemas["Point"][];
      disk_used_pct: Schemas["Point"][];
      net_rx_bps: Schemas["Point"][];
      net_tx_bps: Schemas["Point"][];
      /** The trends of each GPU, by its index. */
      gpu: Record<string, {
        util_pct: Schemas["Point"][];
        mem_used_mb: Schemas["Point"][];
      }>;
    };
  };
  /** The settings of this gateway */
  listSettings: {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: {
      /** Name of the environment variable; the flag is the same in small letters, with `-` for `_`. */
      name: string;
      group: string;
      /** What it does. */
      doc: string;
      /** The values that it takes, for people. */
      allowed: string;
      /** What counts if nobody sets it, for people. Empty: it is not set then. */
      default: string;
      /** The value in force. `***` for a secret that is set. */
      value: string;
      /** `default`, `settings file`, `.env`, `environment`, `secret file` or `flag`. */
      source: string;
    }[];
  };
  /** The machine in short */
  getSystemSummary: {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: {
      ts: string;
      cpu: {
        count: number;
        util_pct: number | null;
        /** The load average over 1, 5 and 15 minutes. */
        load_avg: number[] | null;
      };
      memory: {
        total_mb: number | null;
        used_mb: number | null;
      };
      disk: {
        /** The use of the fullest file system. */
        used_pct: number | null;
        file_systems: Schemas["FileSystem"][];
      };
      gpu: {
        count: number;
        mem_total_mb: number | null;
        mem_used_mb: number | null;
        /** The use of the busiest GPU. */
        util_pct_max: number | null;
      };
      gateway: Schemas["GatewayProcess"];
      uptime_sec: number | null;
    };
  };
  /** What the gateway does */
  getThroughput: {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: {
      req_per_sec: number;
      prompt_tokens_per_sec: number;
      generation_tokens_per_sec: number;
      latency_p50_ms: number | null;
      latency_p95_ms: number | null;
      ttft_p50_ms: number | null;
      ttft_p95_ms: number | null;
      active_requests: number;
      active_streams: number;
      window_sec: number;
    };
  };
  /** List tokens of users */
  listTokens: {
    path: undefined;
    query: {
      /** The largest number of entries to return. */
      limit?: number;
      /** The number of entries to skip. */
      offset?: number;
      /** Only those of users of this organisation. */
      org_id?: number;
      /** Only those of this user. */
      user_id?: number;
    };
    body: undefined;
    answer: Schemas["Token"][];
  };
  /** Revoke a token of a user */
  revokeToken: {
    path: {
      /** What was given when it was made. */
      id: number;
    };
    query: undefined;
    body: undefined;
    answer: {
      id: number;
      status: "deleted";
    };
  };
  /** Health of all engines */
  listUpstreams: {
    path: undefined;
    query: {
      /** The largest number of entries to return. */
      limit?: number;
      /** The number of entries to skip. */
      offset?: number;
    };
    body: undefined;
    answer: Schemas["Upstream"][];
  };
  /** Probe engines now */
  refreshUpstreams: {
    path: undefined;
    query: undefined;
    body: {
      /** The served names whose engines are probed; without it, all engines are. */
      served_names?: string[] | null;
    };
    answer: Schemas["Upstream"][];
  };
  /** Recent requests */
  listUsage: {
    path: undefined;
    query: {
      /** The largest number of entries to return. */
      limit?: number;
      /** The number of entries to skip. */
      offset?: number;
      /** Only the request with this id, as the header `X-Request-Id` of its answer and every error say it. An id that the gateway made is found whenever the request was; ids that clients chose are looked for within the range. */
      req_id?: string;
      /** How many hours the range reaches back from its end, if there is no `from`. */
      hours?: number;
      /** The first moment of the range. */
      from?: string;
      /** The moment after the last one of the range; without it, now. */
      to?: string;
      /** Only requests with this model name. */
      model?: string;
      /** Only requests without a model name: they were refused before it was read, or they were for models that never existed and their rows are so old that they were deleted. It can't be combined with `model`. */
      no_model?: "true" | "false" | "1" | "0";
      /** Only requests of this task. */
      task?: Schemas["Task"];
      /** Only requests with this key. */
      key_id?: number;
      /** A status such as `404`, or a class such as `4xx`. */
      status?: string;
      /** Only requests that ended like this. */
      outcome?: "ok" | "client_error" | "upstream_error" | "client_closed" | "timeout" | "rejected";
      /** Only requests of this user. */
      user_id?: number;
      /** Only requests of this organisation. */
      org_id?: number;
    };
    body: undefined;
    answer: Schemas["UsageRow"][];
  };
  /** Totals by group */
  aggregateUsage: {
    path: undefined;
    query: {
      /** The largest number of entries to return. */
      limit?: number;
      /** The number of entries to skip. */
      offset?: number;
      /** What the requests of a group have in common. */
      group_by?: "model" | "key" | "user" | "org";
      /** The column to sort by. With `-` in front or `:desc` behind, the largest comes first. */
      sort?: "requests" | "-requests" | "requests:asc" | "requests:desc" | "errors" | "-errors" | "errors:asc" | "errors:desc" | "prompt_tokens" | "-prompt_tokens" | "prompt_tokens:asc" | "prompt_tokens:desc" | "completion_tokens" | "-completion_tokens" | "completion_tokens:asc" | "completion_tokens:desc" | "total_tokens" | "-total_tokens" | "total_tokens:asc" | "total_tokens:desc" | "p50_ms" | "-p50_ms" | "p50_ms:asc" | "p50_ms:desc" | "p95_ms" | "-p95_ms" | "p95_ms:asc" | "p95_ms:desc";
      /** How many hours the range reaches back from its end, if there is no `from`. */
      hours?: number;
      /** The first moment of the range. */
      from?: string;
      /** The moment after the last one of the range; without it, now. */
      to?: string;
      /** Only requests with this model name. */
      model?: string;
      /** Only requests without a model name: they were refused before it was read, or they were for models that never existed and their rows are so old that they were deleted. It can't be combined with `model`. */
      no_model?: "true" | "false" | "1" | "0";
      /** Only requests of this task. */
      task?: Schemas["Task"];
      /** Only requests with this key. */
      key_id?: number;
      /** A status such as `404`, or a class such as `4xx`. */
      status?: string;
      /** Only requests that ended like this. */
      outcome?: "ok" | "client_error" | "upstream_error" | "client_closed" | "timeout" | "rejected";
      /** Only requests of this user. */
      user_id?: number;
      /** Only requests of this organisation. */
      org_id?: number;
    };
    body: undefined;
    answer: ({
      /** What people call it; the last name of what was deleted. */
      group: string;
      group_id: number | null;
      /** The group has an id, and nothing that the caller may see has that id any more. */
      deleted: boolean;
      model_name?: string;
      key_prefix?: string;
      requests: number;
      /** Requests with a status of 400 or more. */
      errors: number;
      prompt_tokens: number;
      completion_tokens: number;
      total_tokens: number;
      cached_tokens: number;
      p50_ms: number;
      p95_ms: number;
    })[];
  };
  /** Rows as CSV */
  exportUsage: {
    path: undefined;
    query: {
      /** How many hours the range reaches back from its end, if there is no `from`. */
      hours?: number;
      /** The first moment of the range. */
      from?: string;
      /** The moment after the last one of the range; without it, now. */
      to?: string;
      /** Only requests with this model name. */
      model?: string;
      /** Only requests without a model name: they were refused before it was read, or they were for models that never existed and their rows are so old that they were deleted. It can't be combined with `model`. */
      no_model?: "true" | "false" | "1" | "0";
      /** Only requests of this task. */
      task?: Schemas["Task"];
      /** Only requests with this key. */
      key_id?: number;
      /** A status such as `404`, or a class such as `4xx`. */
      status?: string;
      /** Only requests that ended like this. */
      outcome?: "ok" | "client_error" | "upstream_error" | "client_closed" | "timeout" | "rejected";
      /** Only requests of this user. */
      user_id?: number;
      /** Only requests of this organisation. */
      org_id?: number;
    };
    body: undefined;
    answer: unknown;
  };
  /** Compare usage rows with their sums */
  checkUsage: {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: {
      ok: boolean;
      /** The begin of the hours of which raw rows are kept; `null` if there are none. */
      checked_from: string | null;
      checked_to: string | null;
      /** The number of requests according to the rows. */
      rows: number;
      /** The number of the same requests according to the sums. */
      rollup_rows_sum: number;
      /** At most 100 of them are listed. */
      mismatches: ({
        from: string;
        to: string;
        rows: {
          /** Refused requests may share rows. */
          rows: number;
          requests: number;
          errors: number;
          prompt_tokens: number;
          completion_tokens: number;
        };
        hourly: {
          /** Refused requests may share rows. */
          rows: number;
          requests: number;
          errors: number;
          prompt_tokens: number;
          completion_tokens: number;
        };
        /** `null` for a part of a day, which has no daily sum. */
        daily: {
          /** Refused requests may share rows. */
          rows: number;
          requests: number;
          errors: number;
          prompt_tokens: number;
          completion_tokens: number;
        } | null;
      })[];
      /** The counts of this gateway's usage spool since the gateway started. */
      spool: {
        /** Rows of requests that ended. */
        written: number;
        /** Records that could not be written at first. */
        write_errors: number;
        /** Rows that were shipped to the database. */
        shipped: number;
        /** Shipped rows that the database had already, because they were read again after a crash or an outage. */
        replayed: number;
        /** Rows that were written and are neither in the database nor on disk: files of the spool were removed. */
        missing: number;
        /** Damaged places that were skipped. */
        torn: number;
        /** Bytes that are on disk and not in the database yet. */
        backlog_bytes: number;
      };
    };
  };
  /** Latency */
  getUsageLatency: {
    path: undefined;
    query: {
      /** How many hours the range reaches back from its end, if there is no `from`. */
      hours?: number;
      /** The first moment of the range. */
      from?: string;
      /** The moment after the last one of the range; without it, now. */
      to?: string;
      /** Only requests with this model name. */
      model?: string;
      /** Only requests without a model name: they were refused before it was read, or they were for models that never existed and their rows are so old that they were deleted. It can't be combined with `model`. */
      no_model?: "true" | "false" | "1" | "0";
      /** Only requests of this task. */
      task?: Schemas["Task"];
      /** Only requests with this key. */
      key_id?: number;
      /** A status such as `404`, or a class such as `4xx`. */
      status?: string;
      /** Only requests that ended like this. */
      outcome?: "ok" | "client_error" | "upstream_error" | "client_closed" | "timeout" | "rejected";
      /** Only requests of this user. */
      user_id?: number;
      /** Only requests of this organisation. */
      org_id?: number;
    };
    body: undefined;
    answer: {
      p50_ms: number | null;
      p95_ms: number | null;
      p99_ms: number | null;
      /** The exact average. */
      avg_ms: number | null;
      samples: number;
      /** How the samples are spread, from the shortest to the longest: spans whose bounds are each about 1.6 times the one before. Spans between them without a sample are there, too. */
      histogram: ({
        /** The shortest time. */
        from_ms: number;
        /** The bound above, which belongs to the next span; `null` in the last one, which has no bound. */
        to_ms: number | null;
        requests: number;
      })[];
    };
  };
  /** Totals over time */
  getUsageSeries: {
    path: undefined;
    query: {
      /** The length of a step. */
      bucket?: "minute" | "hour" | "day";
      /** How many hours the range reaches back from its end, if there is no `from`. */
      hours?: number;
      /** The first moment of the range. */
      from?: string;
      /** The moment after the last one of the range; without it, now. */
      to?: string;
      /** Only requests with this model name. */
      model?: string;
      /** Only requests without a model name: they were refused before it was read, or they were for models that never existed and their rows are so old that they were deleted. It can't be combined with `model`. */
      no_model?: "true" | "false" | "1" | "0";
      /** Only requests of this task. */
      task?: Schemas["Task"];
      /** Only requests with this key. */
      key_id?: number;
      /** A status such as `404`, or a class such as `4xx`. */
      status?: string;
      /** Only requests that ended like this. */
      outcome?: "ok" | "client_error" | "upstream_error" | "client_closed" | "timeout" | "rejected";
      /** Only requests of this user. */
      user_id?: number;
      /** Only requests of this organisation. */
      org_id?: number;
    };
    body: undefined;
    answer: {
      /** The begin of the step. The first step may begin before the range; only requests of the range count. */
      ts: string;
      requests: number;
      /** Requests with a status of 400 or more. */
      errors: number;
      prompt_tokens: number;
      completion_tokens: number;
      total_tokens: number;
    }[];
  };
  /** Time to first token */
  getUsageTtft: {
    path: undefined;
    query: {
      /** How many hours the range reaches back from its end, if there is no `from`. */
      hours?: number;
      /** The first moment of the range. */
      from?: string;
      /** The moment after the last one of the range; without it, now. */
      to?: string;
      /** Only requests with this model name. */
      model?: string;
      /** Only requests without a model name: they were refused before it was read, or they were for models that never existed and their rows are so old that they were deleted. It can't be combined with `model`. */
      no_model?: "true" | "false" | "1" | "0";
      /** Only requests of this task. */
      task?: Schemas["Task"];
      /** Only requests with this key. */
      key_id?: number;
      /** A status such as `404`, or a class such as `4xx`. */
      status?: string;
      /** Only requests that ended like this. */
      outcome?: "ok" | "client_error" | "upstream_error" | "client_closed" | "timeout" | "rejected";
      /** Only requests of this user. */
      user_id?: number;
      /** Only requests of this organisation. */
      org_id?: number;
    };
    body: undefined;
    answer: {
      p50_ms: number | null;
      p95_ms: number | null;
      p99_ms: number | null;
      /** The exact average. */
      avg_ms: number | null;
      samples: number;
      /** How the samples are spread, from the shortest to the longest: spans whose bounds are each about 1.6 times the one before. Spans between them without a sample are there, too. */
      histogram: ({
        /** The shortest time. */
        from_ms: number;
        /** The bound above, which belongs to the next span; `null` in the last one, which has no bound. */
        to_ms: number | null;
        requests: number;
      })[];
    };
  };
  /** List users */
  listUsers: {
    path: undefined;
    query: {
      /** The largest number of entries to return. */
      limit?: number;
      /** The number of entries to skip. */
      offset?: number;
      /** Only those of this organisation. */
      org_id?: number;
      /** Only those with this role. */
      role?: Schemas["Role"];
      /** The column to sort by. With `-` in front or `:desc` behind, the largest comes first. */
      sort?: "id" | "-id" | "id:asc" | "id:desc" | "username" | "-username" | "username:asc" | "username:desc" | "created_at" | "-created_at" | "created_at:asc" | "created_at:desc" | "last_login_at" | "-last_login_at" | "last_login_at:asc" | "last_login_at:desc";
      /** Part of the name. */
      q?: string;
    };
    body: undefined;
    answer: Schemas["User"][];
  };
  /** Create a user */
  createUser: {
    path: undefined;
    query: undefined;
    body: {
      /** Without control characters, invisible characters and blanks at its ends. */
      username: string;
      /** A user without a password can't sign in until they set one with a link (`createPasswordLink`). */
      password?: string | null;
      role?: Schemas["Role"] | null;
      org_id?: number | null;
      enabled?: boolean | null;
      /** Served names that the user's keys and sessions may call; `null` is all. */
      models?: string[] | null;
      rpm_limit?: number | null;
      tpm_limit?: number | null;
      max_concurrency?: number | null;
      max_streams?: number | null;
      budget_tokens_day?: number | null;
      budget_tokens_month?: number | null;
    };
    answer: Schemas["User"];
  };
  /** Users for select inputs */
  lookUpUsers: {
    path: undefined;
    query: {
      /** The largest number of entries to return. */
      limit?: number;
      /** The number of entries to skip. */
      offset?: number;
      /** Part of the name. */
      q?: string;
    };
    body: undefined;
    answer: {
      id: number;
      username: string;
      org_id: number;
    }[];
  };
  /** Change a user */
  changeUser: {
    path: {
      /** What was given when it was made. */
      id: number;
    };
    query: undefined;
    body: {
      /** Without control characters, invisible characters and blanks at its ends. */
      username?: string;
      password?: string;
      role?: Schemas["Role"];
      org_id?: number;
      enabled?: boolean;
      /** Served names that the user's keys and sessions may call; `null` is all. */
      models?: string[] | null;
      rpm_limit?: number | null;
      tpm_limit?: number | null;
      max_concurrency?: number | null;
      max_streams?: number | null;
      budget_tokens_day?: number | null;
      budget_tokens_month?: number | null;
    };
    answer: Schemas["User"];
  };
  /** Delete a user */
  deleteUser: {
    path: {
      /** What was given when it was made. */
      id: number;
    };
    query: undefined;
    body: undefined;
    answer: {
      id: number;
      status: "deleted";
    };
  };
  /** Make a link to set a password */
  createPasswordLink: {
    path: {
      /** What was given when it was made. */
      id: number;
    };
    query: undefined;
    body: {
      /** How long the link works, in hours; without it 72. */
      hours?: number | null;
    };
    answer: Schemas["PasswordLink"];
  };
  /** Events about models that one may call */
  streamOwnEvents: {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: unknown;
  };
  /** List your own keys */
  listOwnKeys: {
    path: undefined;
    query: {
      /** The largest number of entries to return. */
      limit?: number;
      /** The number of entries to skip. */
      offset?: number;
      /** The column to sort by. With `-` in front or `:desc` behind, the largest comes first. */
      sort?: "id" | "-id" | "id:asc" | "id:desc" | "name" | "-name" | "name:asc" | "name:desc" | "created_at" | "-created_at" | "created_at:asc" | "created_at:desc" | "last_used_at" | "-last_used_at" | "last_used_at:asc" | "last_used_at:desc";
      /** Only those that have this status now. */
      status?: "active" | "expired" | "revoked" | "holder_disabled";
      /** Part of the name or of the prefix. */
      q?: string;
    };
    body: undefined;
    answer: Schemas["Key"][];
  };
  /** Create a key for oneself */
  createOwnKey: {
    path: undefined;
    query: undefined;
    body: {
      /** Without control characters, invisible characters and blanks at its ends. */
      name?: string | null;
      /** What the key may call. Without it a new key may call everything. */
      scopes?: string | ("chat" | "completions" | "embeddings")[] | null;
      /** Served names that the key may call; `null` is all. */
      models?: string[] | null;
      /** IP addresses and CIDR ranges that the key may be used from. `null` or `[]`: from everywhere. */
      ip_allowlist?: string | string[] | null;
      /** A time in the future. */
      expires_at?: string | null;
      rpm_limit?: number | null;
      tpm_limit?: number | null;
      max_concurrency?: number | null;
      max_streams?: number | null;
      budget_tokens_day?: number | null;
      budget_tokens_month?: number | null;
      /** `null` is `enforce`. */
      limit_mode?: Schemas["LimitMode"] | null;
    };
    answer: Schemas["NewKey"];
  };
  /** Revoke one of your own keys */
  revokeOwnKey: {
    path: {
      /** What was given when it was made. */
      id: number;
    };
    query: undefined;
    body: undefined;
    answer: {
      id: number;
      status: "deleted";
    };
  };
  /** Own limits */
  getOwnLimits: {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: {
      /** What is left for all sessions together, and for all keys as far as an administrator limited the user. */
      user: Schemas["Standing"];
      /** What is left for everybody in the organisation together. */
      org: Schemas["Standing"];
      /** Keys that can be used now. */
      keys: {
        id: number;
        name: string;
        prefix: string;
        limit_mode: Schemas["LimitMode"];
        limits: Schemas["Standing"];
      }[];
    };
  };
  /** Sign in */
  signIn: {
    path: undefined;
    query: undefined;
    body: {
      username: string;
      password: string;
    };
    answer: {
      status: "ok";
      user: Schemas["Me"];
    };
  };
  /** Sign out */
  signOut: {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: {
      status: "ok";
    };
  };
  /** Who am I */
  getMe: {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: {
      user: Schemas["Me"];
    };
  };
  /** Models that one may call */
  listOwnModels: {
    path: undefined;
    query: {
      /** The largest number of entries to return. */
      limit?: number;
      /** The number of entries to skip. */
      offset?: number;
    };
    body: undefined;
    answer: ({
      served_name: string;
      task: Schemas["Task"];
      /** `null`: the engine runs elsewhere. */
      engine_type: Schemas["Engine"] | null;
      /** `null`: the engine runs elsewhere, and nobody here starts or stops it. */
      state: Schemas["ModelState"] | null;
      /** Requests are served now. */
      callable: boolean;
    })[];
  };
  /** Change your own password */
  changeOwnPassword: {
    path: undefined;
    query: undefined;
    body: {
      current_password: string;
      new_password: string;
    };
    answer: {
      status: "ok";
    };
  };
  /** Set your password with a link */
  usePasswordLink: {
    path: undefined;
    query: undefined;
    body: {
      /** What stands after the `#` in the address of the link. */
      token: string;
      password: string;
    };
    answer: {
      status: "ok";
      user: Schemas["Me"];
    };
  };
  /** List your own sessions */
  listOwnSessions: {
    path: undefined;
    query: {
      /** The largest number of entries to return. */
      limit?: number;
      /** The number of entries to skip. */
      offset?: number;
    };
    body: undefined;
    answer: Schemas["Session"][];
  };
  /** End all your other sessions */
  endOtherSessions: {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: {
      status: "ended";
      ended_count: number;
    };
  };
  /** End one of your own sessions */
  endOwnSession: {
    path: {
      /** What was given when it was made. */
      id: string;
    };
    query: undefined;
    body: undefined;
    answer: {
      id: string;
      status: "deleted";
    };
  };
  /** Is there an owner? */
  getSetup: {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: {
      has_owner: boolean;
      needs_setup_token: boolean;
    };
  };
  /** List your own tokens */
  listOwnTokens: {
    path: undefined;
    query: {
      /** The largest number of entries to return. */
      limit?: number;
      /** The number of entries to skip. */
      offset?: number;
    };
    body: undefined;
    answer: Schemas["Token"][];
  };
  /** Create a token for the admin API */
  createOwnToken: {
    path: undefined;
    query: undefined;
    body: {
      /** Without control characters, invisible characters and blanks at its ends. */
      name: string;
      /** What the token may do, as `area:read` (`GET`) or `area:write` (every method); `*` is every area. Each operation says which scope it needs. */
      scopes: string | ("account:read" | "account:write" | "audit:read" | "audit:write" | "deployment:read" | "deployment:write" | "keys:read" | "keys:write" | "models:read" | "models:write" | "people:read" | "people:write" | "system:read" | "system:write" | "usage:read" | "usage:write" | "*:read" | "*:write")[];
      /** A time in the future, at most 366 days from now. Without it the token expires in 90 days. Every token expires. */
      expires_at?: string | null;
    };
    answer: Schemas["NewToken"];
  };
  /** Revoke one of your own tokens */
  revokeOwnToken: {
    path: {
      /** What was given when it was made. */
      id: number;
    };
    query: undefined;
    body: undefined;
    answer: {
      id: number;
      status: "deleted";
    };
  };
  /** Own recent requests */
  listOwnUsage: {
    path: undefined;
    query: {
      /** The largest number of entries to return. */
      limit?: number;
      /** The number of entries to skip. */
      offset?: number;
      /** Only the request with this id, as the header `X-Request-Id` of its answer and every error say it. An id that the gateway made is found whenever the request was; ids that clients chose are looked for within the range. */
      req_id?: string;
      /** How many hours the range reaches back from its end, if there is no `from`. */
      hours?: number;
      /** The first moment of the range. */
      from?: string;
      /** The moment after the last one of the range; without it, now. */
      to?: string;
      /** Only requests with this model name. */
      model?: string;
      /** Only requests without a model name: they were refused before it was read, or they were for models that never existed and their rows are so old that they were deleted. It can't be combined with `model`. */
      no_model?: "true" | "false" | "1" | "0";
      /** Only requests of this task. */
      task?: Schemas["Task"];
      /** Only requests with this key. */
      key_id?: number;
      /** A status such as `404`, or a class such as `4xx`. */
      status?: string;
      /** Only requests that ended like this. */
      outcome?: "ok" | "client_error" | "upstream_error" | "client_closed" | "timeout" | "rejected";
    };
    body: undefined;
    answer: Schemas["UsageRow"][];
  };
  /** Own totals by group */
  aggregateOwnUsage: {
    path: undefined;
    query: {
      /** The largest number of entries to return. */
      limit?: number;
      /** The number of entries to skip. */
      offset?: number;
      /** What the requests of a group have in common. */
      group_by?: "model" | "key" | "user" | "org";
      /** The column to sort by. With `-` in front or `:desc` behind, the largest comes first. */
      sort?: "requests" | "-requests" | "requests:asc" | "requests:desc" | "errors" | "-errors" | "errors:asc" | "errors:desc" | "prompt_tokens" | "-prompt_tokens" | "prompt_tokens:asc" | "prompt_tokens:desc" | "completion_tokens" | "-completion_tokens" | "completion_tokens:asc" | "completion_tokens:desc" | "total_tokens" | "-total_tokens" | "total_tokens:asc" | "total_tokens:desc" | "p50_ms" | "-p50_ms" | "p50_ms:asc" | "p50_ms:desc" | "p95_ms" | "-p95_ms" | "p95_ms:asc" | "p95_ms:desc";
      /** How many hours the range reaches back from its end, if there is no `from`. */
      hours?: number;
      /** The first moment of the range. */
      from?: string;
      /** The moment after the last one of the range; without it, now. */
      to?: string;
      /** Only requests with this model name. */
      model?: string;
      /** Only requests without a model name: they were refused before it was read, or they were for models that never existed and their rows are so old that they were deleted. It can't be combined with `model`. */
      no_model?: "true" | "false" | "1" | "0";
      /** Only requests of this task. */
      task?: Schemas["Task"];
      /** Only requests with this key. */
      key_id?: number;
      /** A status such as `404`, or a class such as `4xx`. */
      status?: string;
      /** Only requests that ended like this. */
      outcome?: "ok" | "client_error" | "upstream_error" | "client_closed" | "timeout" | "rejected";
    };
    body: undefined;
    answer: ({
      /** What people call it; the last name of what was deleted. */
      group: string;
      group_id: number | null;
      /** The group has an id, and nothing that the caller may see has that id any more. */
      deleted: boolean;
      model_name?: string;
      key_prefix?: string;
      requests: number;
      /** Requests with a status of 400 or more. */
      errors: number;
      prompt_tokens: number;
      completion_tokens: number;
      total_tokens: number;
      cached_tokens: number;
      p50_ms: number;
      p95_ms: number;
    })[];
  };
  /** Own totals over time */
  getOwnUsageSeries: {
    path: undefined;
    query: {
      /** The length of a step. */
      bucket?: "minute" | "hour" | "day";
      /** How many hours the range reaches back from its end, if there is no `from`. */
      hours?: number;
      /** The first moment of the range. */
      from?: string;
      /** The moment after the last one of the range; without it, now. */
      to?: string;
      /** Only requests with this model name. */
      model?: string;
      /** Only requests without a model name: they were refused before it was read, or they were for models that never existed and their rows are so old that they were deleted. It can't be combined with `model`. */
      no_model?: "true" | "false" | "1" | "0";
      /** Only requests of this task. */
      task?: Schemas["Task"];
      /** Only requests with this key. */
      key_id?: number;
      /** A status such as `404`, or a class such as `4xx`. */
      status?: string;
      /** Only requests that ended like this. */
      outcome?: "ok" | "client_error" | "upstream_error" | "client_closed" | "timeout" | "rejected";
    };
    body: undefined;
    answer: {
      /** The begin of the step. The first step may begin before the range; only requests of the range count. */
      ts: string;
      requests: number;
      /** Requests with a status of 400 or more. */
      errors: number;
      prompt_tokens: number;
      completion_tokens: number;
      total_tokens: number;
    }[];
  };
  /** Turn tokens into a text */
  detokenize: {
    path: undefined;
    query: undefined;
    body: {
      /** A served name. */
      model: string;
      tokens: number[];
      [key: string]: unknown;
    };
    answer: {
      count?: number;
      [key: string]: unknown;
    };
  };
  /** This document as a page */
  getDocs: {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: unknown;
  };
  /** Whether the gateway answers */
  getHealth: {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: {
      status: "ok";
      version: string;
    };
  };
  /** The same as `/health` */
  getLiveness: {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: {
      status: "ok";
      version: string;
    };
  };
  /** This document */
  getOpenApi: {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: Record<string, unknown>;
  };
  /** Readiness */
  getReadiness: {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: {
      status: "ready" | "degraded";
      runtime: "docker" | "process";
      checks: {
        database: string;
        container_runtime: string;
        supervision: string;
        catalog: string;
        usage_spool: string;
        /** Whether the newest backup can be restored; only with `RESTORE_DRILL`. */
        restore_drill?: string;
      };
      last_proven_restore: string | null;
    };
  };
  /** Turn a text into tokens */
  tokenize: {
    path: undefined;
    query: undefined;
    body: {
      /** A served name. */
      model: string;
      prompt?: string;
      messages?: Record<string, unknown>[];
      [key: string]: unknown;
    };
    answer: {
      count?: number;
      [key: string]: unknown;
    };
  };
  /** Chat (OpenAI) */
  createChatCompletion: {
    path: undefined;
    query: undefined;
    body: {
      /** A served name. */
      model: string;
      messages: Record<string, unknown>[];
      stream?: boolean | null;
      [key: string]: unknown;
    };
    answer: {
      usage?: Record<string, unknown> | null;
      [key: string]: unknown;
    };
  };
  /** List your chats */
  listChats: {
    path: undefined;
    query: {
      /** The largest number of entries to return. */
      limit?: number;
      /** The number of entries to skip. */
      offset?: number;
      /** `false` leaves the messages out. */
      messages?: "true" | "false" | "1" | "0";
    };
    body: undefined;
    answer: Schemas["ChatSummary"][];
  };
  /** Begin a chat */
  createChat: {
    path: undefined;
    query: undefined;
    body: {
      model_name: string;
      /** `null`: an engine of the registry. */
      engine_type: Schemas["EngineWord"] | null;
      /** Limits of the model as the client saw them. At most 8 KiB of JSON. */
      constraints?: Record<string, unknown> | null;
    };
    answer: Schemas["Chat"];
  };
  /** Delete all your chats */
  deleteAllChats: {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: {
      status: "cleared";
      deleted_count: number;
    };
  };
  /** One chat with its messages */
  getChat: {
    path: {
      /** What was given when it was made. */
      id: string;
    };
    query: undefined;
    body: undefined;
    answer: Schemas["Chat"];
  };
  /** Rename a chat, or pin it */
  changeChat: {
    path: {
      /** What was given when it was made. */
      id: string;
    };
    query: undefined;
    body: {
      /** `null` gives back the title that the user's first message gave. Invisible characters are left out; a title that has no others counts as `null`. */
      title?: string | null;
      /** The list shows pinned chats first. */
      pinned?: boolean;
    };
    answer: Schemas["ChatSummary"];
  };
  /** Delete a chat */
  deleteChat: {
    path: {
      /** What was given when it was made. */
      id: string;
    };
    query: undefined;
    body: undefined;
    answer: {
      id: string;
      status: "deleted";
    };
  };
  /** Have a model answer in a chat */
  answerInChat: {
    path: {
      /** What was given when it was made. */
      id: string;
    };
    query: undefined;
    body: {
      /** The request, as `POST /v1/chat/completions` takes it. The gateway sets `stream` and `stream_options`, and takes the chat's model if it names none. */
      request: Record<string, unknown>;
      /** The id of the message that the answer follows; 0: none. The newest message, unless it is given. */
      parent?: number | null;
      /** Whether the answer is the rest of that message. */
      continues?: boolean | null;
    };
    answer: unknown;
  };
  /** Follow the answer that a chat gets */
  followChatAnswer: {
    path: {
      /** What was given when it was made. */
      id: string;
    };
    query: undefined;
    body: undefined;
    answer: unknown;
  };
  /** Stop the answer that a chat gets */
  stopChatAnswer: {
    path: {
      /** What was given when it was made. */
      id: string;
    };
    query: undefined;
    body: undefined;
    answer: {
      status: "stopped";
    };
  };
  /** Add a message */
  addChatMessage: {
    path: {
      /** What was given when it was made. */
      id: string;
    };
    query: undefined;
    body: {
      role: "user" | "assistant";
      content: string;
      /** How fast the answer came, as the client measured it. At most 8 KiB of JSON. */
      metrics?: Record<string, unknown> | null;
    };
    answer: Schemas["ChatMessage"];
  };
  /** Complete a text (OpenAI) */
  createCompletion: {
    path: undefined;
    query: undefined;
    body: {
      /** A served name. */
      model: string;
      prompt: string | unknown[];
      stream?: boolean | null;
      [key: string]: unknown;
    };
    answer: {
      usage?: Record<string, unknown> | null;
      [key: string]: unknown;
    };
  };
  /** Turn texts into vectors (OpenAI) */
  createEmbedding: {
    path: undefined;
    query: undefined;
    body: {
      /** A served name. */
      model: string;
      input: string | unknown[];
      [key: string]: unknown;
    };
    answer: {
      usage?: Record<string, unknown> | null;
      [key: string]: unknown;
    };
  };
  /** Messages (Anthropic) */
  createMessage: {
    path: undefined;
    query: undefined;
    body: {
      /** A served name. */
      model: string;
      messages: Record<string, unknown>[];
      stream?: boolean | null;
      [key: string]: unknown;
    };
    answer: {
      usage?: Record<string, unknown> | null;
      [key: string]: unknown;
    };
  };
  /** Count the tokens of messages (Anthropic) */
  countMessageTokens: {
    path: undefined;
    query: undefined;
    body: {
      /** A served name. */
      model: string;
      messages: Record<string, unknown>[];
      [key: string]: unknown;
    };
    answer: {
      input_tokens?: number;
      [key: string]: unknown;
    };
  };
  /** Models that run and that the caller may call */
  listCallableModels: {
    path: undefined;
    query: undefined;
    body: undefined;
    answer: {
      object: "list";
      data: ({
        id: string;
        object: "model";
        /** Seconds since 1970. */
        created: number;
        owned_by: "gantry";
        task: Schemas["Task"];
        max_model_len: number | null;
        /** As Mistral's clients expect it. */
        type: "base";
        capabilities: {
          completion_chat: boolean;
        };
        /** There, and true, where Gantry's simulator runs instead of an engine: what it answers means nothing. Its answers carry the header `x-gantry-simulator: true`. */
        simulator?: boolean;
      })[];
    } | {
      data: ({
        type: "model";
        id: string;
        display_name: string;
        created_at: string;
        task: Schemas["Task"];
        max_model_len: number | null;
      })[];
      has_more: boolean;
      first_id: string | null;
      last_id: string | null;
    };
  };
  /** Models that can be called now */
  listRunningModels: {
    path: undefined;
    query: {
      /** The largest number of entries to return. */
      limit?: number;
      /** The number of entries to skip. */
      offset?: number;
    };
    body: undefined;
    answer: ({
      served_model_name: string;
      task: Schemas["Task"];
      /** `null`: it was entered by hand. */
      engine_type: Schemas["Engine"] | null;
      state: "running";
    })[];
  };
  /** Limits of one model */
  getModelConstraints: {
    path: {
      /** A served name. A slash may stand as it is. */
      model_name: string;
    };
    query: undefined;
    body: undefined;
    answer: {
      served_model_name: string;
      /** `null`: it was entered by hand. */
      engine_type: Schemas["Engine"] | null;
      task: Schemas["Task"];
      /** The context of llama.cpp; `null` for all others, which have `max_model_len`. */
      context_size: number | null;
      /** `null` for an engine that was entered by hand and does not report it. */
      max_model_len: number | null;
      max_tokens_default: number;
      request_defaults: Record<string, unknown> | null;
      supports_streaming: boolean;
      supports_system_prompt: boolean;
      /** Pictures may be part of a message. `null` if the model's files do not tell, and for an engine that was entered by hand. */
      supports_vision: boolean | null;
    };
  };
  /** One of them */
  getCallableModel: {
    path: {
      /** A served name. A slash may stand as it is. */
      model: string;
    };
    query: undefined;
    body: undefined;
    answer: {
      id: string;
      object: "model";
      /** Seconds since 1970. */
      created: number;
      owned_by: "gantry";
      task: Schemas["Task"];
      max_model_len: number | null;
      /** As Mistral's clients expect it. */
      type: "base";
      capabilities: {
        completion_chat: boolean;
      };
      /** There, and true, where Gantry's simulator runs instead of an engine: what it answers means nothing. Its answers carry the header `x-gantry-simulator: true`. */
      simulator?: boolean;
    } | {
      type: "model";
      id: string;
      display_name: string;
      created_at: string;
      task: Schemas["Task"];
      max_model_len: number | null;
    };
  };
  /** Order documents by how well they answer a query; also `/rerank`, `/v2/rerank` */
  rerank: {
    path: undefined;
    query: undefined;
    body: {
      /** A served name. */
      model: string;
      query: string;
      documents: string | unknown[];
      [key: string]: unknown;
    };
    answer: {
      usage?: Record<string, unknown> | null;
      [key: string]: unknown;
    };
  };
  /** Responses (OpenAI) */
  createResponse: {
    path: undefined;
    query: undefined;
    body: {
      /** A served name. */
      model: string;
      input: string | unknown[];
      stream?: boolean | null;
      [key: string]: unknown;
    };
    answer: {
      usage?: Record<string, unknown> | null;
      [key: string]: unknown;
    };
  };
  /** Score pairs of texts; also `/score` */
  score: {
    path: undefined;
    query: undefined;
    body: {
      /** A served name. */
      model: string;
      text_1?: string | string[];
      text_2?: string | string[];
      [key: string]: unknown;
    };
    answer: {
      usage?: Record<string, unknown> | null;
      [key: string]: unknown;
    };
  };
}
