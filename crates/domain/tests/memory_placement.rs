//! Tests the memory estimate with GPUs that this machine lacks, settings at their limits, and files with false claims.
#![expect(clippy::unwrap_used, reason = "what helps a test fails like one")]

use gantry_domain::memory::{
    Estimate, GpuMemory, Hyper, LlamacppSettings, ModelFacts, PerLayer, Recurrent, SlidingWindow, Slots,
    SplitMode, Tensor, Unknown, VllmKvType, VllmSettings, estimate_llamacpp, estimate_vllm,
};
use proptest::prelude::*;

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// Returns the facts of a typical 7B model: 32 layers, tied or not.
fn seven(tied: bool) -> ModelFacts {
    let hyper = Hyper {
        architecture: "llama".into(),
        n_layer: Some(32),
        n_embd: Some(4096),
        n_head: Some(PerLayer::All(32)),
        n_head_kv: Some(PerLayer::All(8)),
        n_ff: Some(PerLayer::All(14336)),
        n_vocab: Some(128_256),
        context_train: Some(131_072),
        ..Hyper::default()
    };
    let names: Vec<String> = (0..32).map(|it| format!("blk.{it}.attn_k.weight")).collect();
    let mut tensors: Vec<Tensor<'_>> =
        names.iter().map(|name| Tensor { name, n_elements: 100, bytes: 400 * MIB }).collect();
    tensors.push(Tensor { name: "token_embd.weight", n_elements: 1, bytes: GIB });
    if !tied {
        tensors.push(Tensor { name: "output.weight", n_elements: 1, bytes: GIB });
    }
    ModelFacts::new(&hyper, tensors).unwrap()
}

const CARD: GpuMemory = GpuMemory { total: 24 * GIB, free: 23 * GIB };

fn llamacpp(facts: &ModelFacts, settings: &LlamacppSettings<'_>) -> Estimate {
    estimate_llamacpp(facts, settings).unwrap()
}

#[test]
fn the_input_stays_in_ram_and_a_tied_output_counts_twice() {
    let settings = LlamacppSettings { context: Some(8192), gpus: &[CARD], ..LlamacppSettings::default() };
    for tied in [true, false] {
        let estimate = llamacpp(&seven(tied), &settings);
        assert_eq!(estimate.per_gpu[0].weights, 32 * 400 * MIB + GIB);
        // 8192 tokens × 32 layers × 8 heads × 128 elements × 2 (keys and values) × 2 bytes.
        assert_eq!(estimate.per_gpu[0].kv_cache, GIB);
        assert!((GIB..GIB + 64 * MIB).contains(&estimate.host_ram), "{}", estimate.host_ram);
        assert_eq!(estimate.fits, Some(true));
    }
}

#[test]
fn few_gpu_layers_take_the_output_first_and_then_the_last_layers() {
    let at = |ngl| {
        let settings = LlamacppSettings {
            context: Some(4096),
            ngl: Some(ngl),
            gpus: &[CARD],
            ..LlamacppSettings::default()
        };
        llamacpp(&seven(false), &settings).per_gpu[0].weights
    };
    assert_eq!([at(0), at(1), at(2)], [0, GIB, GIB + 400 * MIB]);
    assert_eq!(at(32), GIB + 31 * 400 * MIB);
    assert_eq!(at(33), at(999));
}

#[test]
fn a_split_deals_layers_out_by_share() {
    let gpus = [CARD, CARD];
    let at = |tensor_split: &[f64], split_mode| {
        let settings = LlamacppSettings {
            context: Some(4096),
            gpus: &gpus,
            tensor_split,
            split_mode,
            ..LlamacppSettings::default()
        };
        let estimate = llamacpp(&seven(false), &settings);
        estimate.per_gpu.iter().map(|it| it.weights).collect::<Vec<_>>()
    };
    // 33 places (with the output): 25 and 8, 17 and 16.
    assert_eq!(at(&[3.0, 1.0], SplitMode::Layer), [25 * 400 * MIB, 7 * 400 * MIB + GIB]);
    assert_eq!(at(&[], SplitMode::Layer), [17 * 400 * MIB, 15 * 400 * MIB + GIB]);
    assert_eq!(at(&[], SplitMode::None), [32 * 400 * MIB + GIB, 0]);
    let rows = at(&[], SplitMode::Row);
    assert_eq!(rows[0], rows[1]);
}

#[test]
fn experts_of_the_first_layers_can_stay_in_ram() {
    let hyper = Hyper {
        architecture: "qwen3moe".into(),
        n_layer: Some(2),
        n_embd: Some(64),
        n_head: Some(PerLayer::All(4)),
        n_ff_expert: Some(128),
        n_vocab: Some(960),
        context_train: Some(2048),
        ..Hyper::default()
    };
    let names = ["blk.0.attn_k.weight", "blk.0.ffn_up_exps.weight", "blk.1.ffn_gate_up_exps.weight"];
    let tensors = names.iter().map(|name| Tensor { name, n_elements: 1, bytes: MIB });
    let facts = ModelFacts::new(&hyper, tensors).unwrap();
    let at = |n_cpu_moe| {
        let settings = LlamacppSettings { n_cpu_moe, gpus: &[CARD], ..LlamacppSettings::default() };
        llamacpp(&facts, &settings).per_gpu[0].weights
    };
    assert_eq!([at(0), at(1), at(2), at(9)], [3 * MIB, 2 * MIB, MIB, MIB]);
}

#[test]
fn layers_without_a_cache_of_their_own_count_none() {
    let hyper = Hyper {
        architecture: "qwen3next".into(),
        n_layer: Some(4),
        n_embd: Some(256),
        n_head: Some(PerLayer::All(8)),
        n_head_kv: Some(PerLayer::All(2)),
        key_length: Some(64),
        value_length: Some(64),
        n_ff: Some(PerLayer::All(512)),
        n_vocab: Some(1000),
        context_train: Some(4096),
        recurrent: Some(Recurrent { d_conv: 4, d_inner: 512, d_state: 64, n_group: 1 }),
        shared_kv_layers: Some(1),
        ..Hyper::default()
    };
    // A delta-net layer, an attention layer, one that is both, and one that reads the cache of another.
    let names = [
        "blk.0.attn_qkv.weight",
        "blk.0.ssm_out.weight",
        "blk.1.attn_k.weight",
        "blk.2.attn_k.weight",
        "blk.2.ssm_out.weight",
        "blk.3.attn_k.weight",
        "model.visual.blocks.0.attn.qkv.weight",
    ];
    let tensors = names.iter().map(|name| Tensor { name, n_elements: 1, bytes: MIB });
    let facts = ModelFacts::new(&hyper, tensors).unwrap();
    assert_eq!((facts.layers[0].bytes, facts.other_bytes), (2 * MIB, MIB));
    let settings = LlamacppSettings { context: Some(4096), ..LlamacppSettings::default() };
    let (cache, state) = (4096 * 2 * (64 + 64) * 2, 4 * 4 * (3 * (512 + 2 * 64) + 64 * 512));
    assert_eq!(llamacpp(&facts, &settings).kv_cache, 2 * cache + 2 * state);
}

#[test]
fn the_longest_context_is_the_last_that_fits() {
    let gpus = [GpuMemory { total: 24 * GIB, free: 18 * GIB }];
    let at = |context| {
        let settings =
            LlamacppSettings { context: Some(context), gpus: &gpus, ..LlamacppSettings::default() };
        llamacpp(&seven(false), &settings)
    };
    let longest = at(131_072).max_context_that_fits.unwrap();
    assert!((20_000..40_000).contains(&longest), "{longest}");
    assert_eq!(at(131_072).fits, Some(false));
    assert_eq!(at(longest).fits, Some(true));
    assert_eq!(at(longest + 256).fits, Some(false));
    assert_eq!(at(512).max_context_that_fits, Some(longest));
}

#[test]
fn without_a_gpu_ram_decides_and_unknown_stays_unknown() {
    let at = |host_ram_free| {
        let settings = LlamacppSettings { context: Some(4096), host_ram_free, ..LlamacppSettings::default() };
        llamacpp(&seven(false), &settings)
    };
    assert_eq!((at(None).fits, at(None).available, at(None).max_context_that_fits), (None, None, None));
    assert_eq!(at(Some(GIB)).fits, Some(false));
    assert_eq!(at(Some(GIB)).max_context_that_fits, Some(0));
    assert_eq!(at(Some(32 * GIB)).fits, Some(true));
    assert_eq!(at(None).host_ram, at(None).total);
}

#[test]
fn missing_facts_are_unknown_with_a_reason() {
    let tensor = || [Tensor { name: "blk.0.attn_k.weight", n_elements: 1, bytes: 2 }];
    let whole = Hyper {
        architecture: "llama".into(),
        n_layer: Some(1),
        n_embd: Some(64),
        n_head: Some(PerLayer::All(4)),
        n_vocab: Some(100),
        ..Hyper::default()
    };
    assert!(ModelFacts::new(&whole, tensor()).is_ok());
    let without: [(&str, Hyper); 7] = [
        ("architecture", Hyper { architecture: String::new(), ..whole.clone() }),
        ("number of layers", Hyper { n_layer: None, ..whole.clone() }),
        ("layers", Hyper { n_layer: Some(u64::MAX), ..whole.clone() }),
        ("embedding length", Hyper { n_embd: None, ..whole.clone() }),
        ("number of heads", Hyper { n_head: None, ..whole.clone() }),
        ("vocabulary", Hyper { n_vocab: None, ..whole.clone() }),
        ("`rwkv7`", Hyper { architecture: "rwkv7".into(), ..whole.clone() }),
    ];
    for (what, hyper) in without {
        let Unknown { reason } = ModelFacts::new(&hyper, tensor()).unwrap_err();
        assert!(reason.contains(what), "{reason}");
    }
    assert!(ModelFacts::new(&whole, []).is_err());
    let facts = ModelFacts::new(&whole, tensor()).unwrap();
    assert!(estimate_llamacpp(&facts, &LlamacppSettings::default()).is_err(), "no context");
}

/// Returns the facts of a hub checkpoint of the same shape.
fn checkpoint() -> ModelFacts {
    let hyper = Hyper {
        architecture: "llama".into(),
        n_layer: Some(2),
        n_embd: Some(128),
        n_head: Some(PerLayer::All(4)),
        n_head_kv: Some(PerLayer::All(1)),
        n_ff: Some(PerLayer::All(256)),
        n_vocab: Some(1000),
        context_train: Some(8_388_608),
        ..Hyper::default()
    };
    let names = ["model.layers.0.self_attn.k_proj.weight", "model.layers.1.mlp.up_proj.weight"];
    let tensors = names.iter().map(|name| Tensor { name, n_elements: 1, bytes: MIB });
    ModelFacts::new(&hyper, tensors).unwrap()
}

#[test]
fn vllm_tells_how_many_tokens_its_cache_holds() {
    // Seen with vLLM 0.32: 1 GiB, 2 layers, 1 head of 32 elements in 2 bytes: 4,194,304 tokens.
    let settings = VllmSettings {
        kv_cache_memory: Some(GIB),
        max_model_len: Some(4096),
        gpus: &[CARD],
        ..VllmSettings::default()
    };
    let estimate = estimate_vllm(&checkpoint(), &settings).unwrap();
    assert_eq!(estimate.max_context_that_fits, Some(4_194_304));
    assert_eq!(estimate.per_gpu[0].kv_cache, GIB);
    assert_eq!(estimate.fits, Some(true));
    let eight = VllmSettings { kv_type: VllmKvType::Eight, ..settings };
    assert_eq!(estimate_vllm(&checkpoint(), &eight).unwrap().max_context_that_fits, Some(8_388_608));
}

#[test]
fn vllm_takes_its_share_and_refuses_what_is_not_there() {
    let facts = seven(false);
    let at = |settings: &VllmSettings<'_>| estimate_vllm(&facts, settings);
    let one = VllmSettings { max_model_len: Some(8192), gpus: &[CARD], ..VllmSettings::default() };
    let estimate = at(&one).unwrap();
    let budget = (24.0 * GIB as f64 * 0.92) as u64;
    assert_eq!((estimate.total, estimate.fits), (budget, Some(true)));
    // The weights are halved and there is no room for more: the budget is larger than what is free.
    let gpus = [CARD, GpuMemory { total: 24 * GIB, free: 20 * GIB }];
    let two = VllmSettings { tensor_parallel: 2, gpus: &gpus, ..one.clone() };
    let split = at(&two).unwrap();
    assert_eq!(split.per_gpu[1].weights * 2, estimate.per_gpu[0].weights);
    assert_eq!(split.fits, Some(false));
    let stages = at(&VllmSettings { pipeline_parallel: 2, gpus: &gpus, ..one.clone() }).unwrap();
    assert_eq!(stages.per_gpu[0].weights, 16 * 400 * MIB + GIB);
    let three = VllmSettings { tensor_parallel: 3, gpus: &gpus, ..one.clone() };
    assert!(at(&three).unwrap_err().reason.contains("3 GPUs"));
    let offload = at(&VllmSettings { cpu_offload: 4 * GIB, ..one.clone() }).unwrap();
    assert_eq!(offload.host_ram, 4 * GIB);
    let tight = VllmSettings { gpu_memory_utilization: 0.5, ..one };
    assert_eq!((at(&tight).unwrap().fits, at(&tight).unwrap().max_context_that_fits), (Some(false), Some(0)));
}

proptest! {
    /// Headers are untrusted: nothing overflows, and more context never needs less.
    #[test]
    fn any_numbers_give_an_answer(
        embedding: u64, heads: u64, kv in any::<Option<u64>>(), inner: u64, vocab in 1..u64::MAX, bytes: u64,
        layers in 1..12_u64, context in 1..u64::MAX, slots: u64, ubatch: u64, window: u64, flash: bool,
        split in prop::collection::vec(any::<f64>(), 0..3), free: u64, latent in any::<Option<u64>>(),
        experts in any::<Option<u64>>(),
    ) {
        let hyper = Hyper {
            architecture: "gemma3".into(),
            n_layer: Some(layers),
            n_embd: Some(embedding),
            n_head: Some(PerLayer::All(heads)),
            n_head_kv: kv.map(PerLayer::All),
            key_length: kv,
            n_ff: Some(PerLayer::All(inner)),
            n_expert: experts,
            n_expert_used: experts,
            n_vocab: Some(vocab),
            context_train: Some(context),
            sliding_window: Some(SlidingWindow { window, pattern: None }),
            kv_lora_rank: latent,
            rope_dim: latent,
            ..Hyper::default()
        };
        let names = ["blk.0.attn_k.weight", "token_embd.weight", "blk.0.ffn_up_exps.weight", "blk.99.x", "blk..y"];
        let tensors = names.iter().map(|name| Tensor { name, n_elements: bytes, bytes });
        if let Ok(facts) = ModelFacts::new(&hyper, tensors) {
            let gpus = [GpuMemory { total: free, free }, GpuMemory { total: u64::MAX, free }];
            for gpus in [&gpus[..], &[]] {
                let settings = LlamacppSettings {
                    context: Some(context),
                    slots: Slots::Fixed { slots, unified: flash },
                    ubatch,
                    batch: ubatch,
                    flash_attn: Some(flash),
                    tensor_split: &split,
                    gpus,
                    host_ram_free: Some(free),
                    ..LlamacppSettings::default()
                };
                let long = estimate_llamacpp(&facts, &settings);
                let short = LlamacppSettings { context: Some(context / 2 + 1), ..settings };
                let short = estimate_llamacpp(&facts, &short);
                if let (Ok(long), Ok(short)) = (long, short) {
                    prop_assert!(short.kv_cache <= long.kv_cache);
                }
                let vllm = VllmSettings { tensor_parallel: slots % 5, max_num_seqs: slots, gpus, ..VllmSettings::default() };
                let _ = estimate_vllm(&facts, &vllm);
            }
        }
    }
}
