//! Reads `config.json`: the dimensions of the model.
//!
//! Names and their order of precedence: vLLM 0.32 `vllm/transformers_utils/model_arch_config_convertor.py`
//! and `vllm/config/model.py` (`_get_and_verify_max_len`).

use serde_json::Value;

use crate::{TaskHint, gguf::PerLayer};

/// Most layers for which the kind of attention is recorded one by one.
const MAX_LAYERS: u64 = 4096;
/// Longest name that is kept, in characters.
const MAX_NAME: usize = 200;
/// Keys of models that take images: an encoder's configuration, or its name (Qwen-VL, Phi-3-vision, `LLaVA`), or the token
/// that stands for an image.
const VISION: &[&str] = &[
    "vision_config",
    "visual",
    "img_processor",
    "vision_tower",
    "mm_vision_tower",
    "image_token_id",
    "image_token_index",
];

/// What one layer keeps for each token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttentionKind {
    /// Keys and values of every token.
    Full,
    /// Keys and values of the last [`HfConfig::sliding_window`] tokens.
    Sliding,
    /// A state of fixed size (linear attention, Mamba, convolution).
    Recurrent,
    /// Something else.
    Other,
}

/// Rotary position embedding.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rope {
    pub theta: Option<f64>,
    /// `default`, `linear`, `dynamic`, `yarn`, `llama3`, `longrope`, …
    pub kind: Option<String>,
    pub factor: Option<f64>,
    /// Tokens before scaling.
    pub original_context_length: Option<u64>,
}

/// The contents of `config.json`; for a multimodal model, those of its language part.
#[derive(Debug, Clone, PartialEq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent properties")]
pub struct HfConfig {
    pub architecture: Option<String>,
    pub model_type: Option<String>,
    /// Model type of the language part, which may differ.
    pub text_model_type: Option<String>,
    /// Type of the weights: `bfloat16`, `float16`, `float32`.
    pub dtype: Option<String>,
    /// Context length in tokens, after rope scaling, as vLLM derives it.
    pub context_length: Option<u64>,
    pub num_layers: Option<u64>,
    pub hidden_size: Option<u64>,
    pub intermediate_size: Option<u64>,
    pub num_attention_heads: Option<u64>,
    /// Heads of keys and values; as many as queries unless the file states another number.
    pub num_key_value_heads: Option<PerLayer>,
    /// Elements of one head.
    pub head_dim: Option<u64>,
    pub vocab_size: Option<u64>,
    pub num_experts: Option<u64>,
    pub num_experts_per_token: Option<u64>,
    /// Size of the feed-forward part of one expert; [`HfConfig::intermediate_size`] unless given.
    pub moe_intermediate_size: Option<u64>,
    /// How many layers, counted from the last, use the cache of earlier ones.
    pub num_kv_shared_layers: Option<u64>,
    /// Window in tokens; `None` also if the file switches it off.
    pub sliding_window: Option<u64>,
    /// Kind of attention for each layer; empty if the number of layers is unknown.
    pub attention: Vec<AttentionKind>,
    /// Elements of the compressed entry in multi-head latent attention, without position; the next field has those with
    /// position.
    pub kv_lora_rank: Option<u64>,
    pub qk_rope_head_dim: Option<u64>,
    /// Elements of a decompressed head, without position.
    pub qk_nope_head_dim: Option<u64>,
    pub rope: Rope,
    pub tie_word_embeddings: bool,
    /// Whether the file has `auto_map`, so that the model's own code has to run.
    pub needs_remote_code: bool,
    /// Whether it also takes images, sound or video.
    pub multimodal: bool,
    /// Whether it has a part that takes images.
    pub sees: bool,
    /// Whether it has an encoder before its decoder, as T5 and Whisper do.
    pub encoder_decoder: bool,
}

/// Returns a text of at most [`MAX_NAME`] characters.
pub(super) fn text(value: &Value, key: &str) -> Option<String> {
    let text = value.get(key)?.as_str().filter(|it| !it.is_empty())?;
    Some(text.chars().take(MAX_NAME).collect())
}

/// Returns a whole number that is not negative, even if it is written as `8.0`.
pub(super) fn whole(value: &Value, key: &str) -> Option<u64> {
    as_whole(value.get(key)?)
}

fn as_whole(value: &Value) -> Option<u64> {
    // Above 2^53 a float is not an exact number, and no value here is that large.
    value.as_u64().or_else(|| {
        value.as_f64().filter(|it| (0.0..9e15).contains(it) && it.fract() == 0.0).map(|it| it as u64)
    })
}

fn first(value: &Value, keys: &[&str]) -> Option<u64> {
    keys.iter().find_map(|it| whole(value, it))
}

impl HfConfig {
    /// Reads the fields that it understands; any field may be missing.
    pub fn from_value(top: &Value) -> Self {
        let nested = ["text_config", "llm_config", "language_config", "thinker_config"];
        let inner = nested.iter().find_map(|it| top.get(it)).filter(|it| it.is_object());
        // Qwen Omni nests the configuration twice.
        let model = inner.map_or(top, |it| it.get("text_config").filter(|it| it.is_object()).unwrap_or(it));
        let either = |key: &str| model.get(key).or_else(|| top.get(key));
        // Its encoders are nested once.
        let encodes = |key: &&str| {
            top.get(*key).is_some() || top.get("thinker_config").is_some_and(|it| it.get(*key).is_some())
        };
        let name = |key| text(model, key).or_else(|| text(top, key));

        let num_layers = first(model, &["num_hidden_layers", "n_layer", "num_layers", "n_layers"]);
        let hidden_size = first(model, &["hidden_size", "n_embd", "d_model"]);
        let heads = first(model, &["num_attention_heads", "n_head", "n_heads", "num_heads"]);
        let mut config = Self {
            architecture: top
                .get("architectures")
                .and_then(|it| it.get(0)?.as_str())
                .map(|it| it.chars().take(MAX_NAME).collect()),
            model_type: text(top, "model_type"),
            text_model_type: name("model_type"),
            dtype: name("dtype").or_else(|| name("torch_dtype")),
            context_length: None,
            num_layers,
            hidden_size,
            intermediate_size: first(model, &["intermediate_size", "ffn_hidden_size", "n_inner"]),
            num_attention_heads: heads,
            num_key_value_heads: kv_heads(model, heads),
            head_dim: first(model, &["head_dim", "attention_head_dim", "kv_channels"])
                .or_else(|| hidden_size?.checked_div(heads?)),
            vocab_size: first(model, &["vocab_size", "padded_vocab_size"])
                .or_else(|| whole(top, "vocab_size")),
            num_experts: first(
                model,
                &["num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"],
            )
            .filter(|it| *it > 1),
            num_experts_per_token: first(model, &["num_experts_per_tok", "num_experts_per_token", "moe_k"]),
            moe_intermediate_size: first(model, &["moe_intermediate_size", "expert_intermediate_size"]),
            num_kv_shared_layers: whole(model, "num_kv_shared_layers"),
            sliding_window: sliding_window(model),
            attention: Vec::new(),
            kv_lora_rank: whole(model, "kv_lora_rank").filter(|it| *it > 0),
            qk_rope_head_dim: whole(model, "qk_rope_head_dim"),
            qk_nope_head_dim: whole(model, "qk_nope_head_dim"),
            rope: rope(model),
            tie_word_embeddings: either("tie_word_embeddings").and_then(Value::as_bool).unwrap_or(false),
            needs_remote_code: top.get("auto_map").is_some(),
            multimodal: ["vision_config", "audio_config", "visual"].iter().any(encodes),
            sees: VISION.iter().any(encodes),
            encoder_decoder: either("is_encoder_decoder").and_then(Value::as_bool).unwrap_or(false),
        };
        config.attention = attention(model, &config);
        config.context_length = context_length(model, &config);
        config
    }

    /// Lowers [`HfConfig::context_length`] to what the tokenizer and sentence-transformers allow, as vLLM does.
    pub(super) fn bound_context(&mut self, tokenizer: Option<f64>, encoder: Option<u64>) {
        // Tokenizers without a limit state 1e30.
        let tokenizer = tokenizer.filter(|it| (1.0..1e12).contains(it)).map(|it| it as u64);
        self.context_length = match (self.context_length, tokenizer) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.context_length = encoder.filter(|it| *it > 0).or(self.context_length);
    }

    /// Returns the task by the name of the model's class, as vLLM's table of suffixes does (`vllm/config/model.py`,
    /// `_SUFFIX_TO_DEFAULTS`).
    pub(crate) fn task(&self, sentence_transformer: bool) -> TaskHint {
        let name = self.architecture.as_deref().unwrap_or_default();
        let ends = |suffixes: &[&str]| suffixes.iter().any(|it| name.ends_with(it));
        if ends(&[
            "ForSequenceClassification",
            "ForTokenClassification",
            "ClassificationModel",
            "RewardModel",
            "ForRewardModeling",
        ]) {
            TaskHint::Rerank
        } else if sentence_transformer || ends(&["ForTextEncoding", "EmbeddingModel"]) {
            TaskHint::Embed
        } else if name == "ChatGLMModel"
            || !ends(&["Model", "ForMaskedLM"])
            || ends(&["ChatModel", "LMHeadModel"])
        {
            TaskHint::Generate
        } else {
            TaskHint::Embed
        }
    }
}

fn kv_heads(model: &Value, heads: Option<u64>) -> Option<PerLayer> {
    let keys =
        ["num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads", "num_key_value_groups_count"];
    let given = keys.iter().find_map(|key| match model.get(key)? {
        Value::Array(all) => {
            let each: Option<Vec<u64>> = all.iter().take(MAX_LAYERS as usize).map(as_whole).collect();
            each.map(PerLayer::Each)
        }
        other => as_whole(other).map(PerLayer::All),
    });
    let flag = |key: &str| model.get(key).and_then(Value::as_bool) == Some(true);
    given
        // In Falcon 7B and StarCoder all queries share one head; ChatGLM counts groups.
        .or_else(|| whole(model, "multi_query_group_num").map(PerLayer::All))
        .or_else(|| (flag("multi_query") && !flag("new_decoder_architecture")).then_some(PerLayer::All(1)))
        .or(heads.map(PerLayer::All))
}

fn sliding_window(model: &Value) -> Option<u64> {
    if model.get("use_sliding_window").and_then(Value::as_bool) == Some(false) {
        return None;
    }
    first(model, &["sliding_window", "sliding_window_size"]).filter(|it| *it > 0)
}

fn rope(model: &Value) -> Rope {
    let object = |key| model.get(key).filter(|it| it.is_object());
    let mut parameters = object("rope_parameters").or_else(|| object("rope_scaling"));
    // Models with two kinds of layers have one set of parameters for each kind.
    if let Some(full) = parameters.and_then(|it| it.get("full_attention")).filter(|it| it.is_object()) {
        parameters = Some(full);
    }
    let number = |value: &Value, key: &str| value.get(key).and_then(Value::as_f64);
    Rope {
        theta: parameters.and_then(|it| number(it, "rope_theta")).or_else(|| number(model, "rope_theta")),
        kind: parameters.and_then(|it| text(it, "rope_type").or_else(|| text(it, "type"))),
        factor: parameters.and_then(|it| number(it, "factor")),
        original_context_length: parameters
            .and_then(|it| whole(it, "original_max_position_embeddings"))
            .or_else(|| whole(model, "original_max_position_embeddings")),
    }
}

fn context_length(model: &Value, config: &HfConfig) -> Option<u64> {
    const KEYS: [&str; 9] = [
        "max_position_embeddings",
        "n_positions",
        "max_seq_len",
        "seq_length",
        "model_max_length",
        "max_target_positions",
        "max_sequence_length",
        "max_seq_length",
        "seq_len",
    ];
    let given = KEYS.iter().filter_map(|it| whole(model, it)).min();
    let length = whole(model, "model_max_length").or(given)?;
    let kind = config.rope.kind.as_deref();
    let is_yarn = matches!(kind, Some("yarn" | "deepseek_yarn"));
    // YaRN scales the length of the training, whatever the file states as its length.
    let length = config.rope.original_context_length.filter(|_| is_yarn).unwrap_or(length);
    // Files of these kinds state the scaled length; Gemma 3 does with every kind.
    let stated = is_yarn && config.rope.original_context_length.is_none();
    let scaled = stated
        || matches!(kind, None | Some("default" | "su" | "longrope" | "llama3" | "mrope" | "proportional"))
        || config.model_type.as_deref().is_some_and(|it| it.contains("gemma3"));
    let factor =
        if scaled { 1.0 } else { config.rope.factor.filter(|it| (0.0..1e6).contains(it)).unwrap_or(1.0) };
    Some((length as f64 * factor) as u64)
}

fn attention(model: &Value, config: &HfConfig) -> Vec<AttentionKind> {
    let Some(layers) = config.num_layers.filter(|it| *it <= MAX_LAYERS) else { return Vec::new() };
    if let Some(Value::Array(types)) = model.get("layer_types").or_else(|| model.get("layers_block_type")) {
        return types.iter().take(layers as usize).map(|it| kind(it.as_str().unwrap_or_default())).collect();
    }
    // Every n-th layer sees everything.
    let window =
        whole(model, "sliding_window_pattern").filter(|it| *it > 0 && config.sliding_window.is_some());
    let recurrent = whole(model, "full_attention_interval").filter(|it| *it > 0);
    (1..=layers)
        .map(|layer| match (window, recurrent) {
            (Some(period), _) if !layer.is_multiple_of(period) => AttentionKind::Sliding,
            (None, Some(period)) if !layer.is_multiple_of(period) => AttentionKind::Recurrent,
            (None, None) if config.sliding_window.is_some() => AttentionKind::Sliding,
            _ => AttentionKind::Full,
        })
        .collect()
}

fn kind(layer_type: &str) -> AttentionKind {
    match layer_type {
        "full_attention" | "attention" | "global" => AttentionKind::Full,
        "sliding_attention" | "chunked_attention" | "local" => AttentionKind::Sliding,
        "linear_attention" | "mamba" | "mamba2" | "conv" | "recurrent" => AttentionKind::Recurrent,
        _ => AttentionKind::Other,
    }
}
