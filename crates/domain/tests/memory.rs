//! Compares the memory estimate with what a real llama-server reports.
//!
//! `memory/measured-*.tsv` were written by `memory/measure.py` (one row per run of llama-server), `memory/models.tsv`
//! by `memory/dump.py`; the models of the second table by `memory/architectures.py`. The tables that the tests print
//! are those of `docs/memory-estimate.md`.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "what helps a test fails like one"
)]

use std::collections::BTreeMap;

use gantry_domain::memory::{
    CacheType, Hyper, LlamacppSettings, ModelFacts, PerLayer, Recurrent, SlidingWindow, Slots, Tensor,
    estimate_llamacpp,
};

const MODELS: &str = include_str!("memory/models.tsv");
const MEASURED: &str = include_str!("memory/measured-b11434.tsv");
const ARCHITECTURES: &str = include_str!("memory/measured-architectures-b11434.tsv");
const DOC: &str = include_str!("../../../docs/memory-estimate.md");
const MIB: u64 = 1 << 20;

fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().filter(|it| !it.starts_with('#')).map(|it| it.split('\t').collect())
}

fn number(text: &str) -> u64 {
    text.parse().unwrap()
}

fn facts(model: &str) -> ModelFacts {
    let mut keys = BTreeMap::new();
    let mut tensors = Vec::new();
    for row in rows(MODELS).filter(|it| it[0] == model) {
        match row[1] {
            "key" => drop(keys.insert(row[2], row[3])),
            _ => tensors.push(Tensor { name: row[2], n_elements: number(row[3]), bytes: number(row[4]) }),
        }
    }
    ModelFacts::new(&hyper(&keys), tensors).unwrap()
}

fn hyper(keys: &BTreeMap<&str, &str>) -> Hyper {
    let one = |key: &str| keys.get(key).map(|it| number(it));
    let each = |key: &str| {
        let text = keys.get(key)?;
        let all: Vec<u64> = text.split(',').map(number).collect();
        Some(if text.contains(',') { PerLayer::Each(all) } else { PerLayer::All(all[0]) })
    };
    let pooling = one("pooling_type").is_some_and(|it| it > 0);
    Hyper {
        architecture: keys["architecture"].to_owned(),
        n_layer: one("block_count"),
        n_embd: one("embedding_length"),
        n_head: each("attention.head_count"),
        n_head_kv: each("attention.head_count_kv"),
        key_length: one("attention.key_length"),
        value_length: one("attention.value_length"),
        n_ff: each("feed_forward_length"),
        n_ff_expert: one("expert_feed_forward_length"),
        n_expert: one("expert_count"),
        n_expert_used: one("expert_used_count"),
        n_vocab: one("vocab_size").or(one("tokens")),
        context_train: one("context_length"),
        sliding_window: one("attention.sliding_window")
            .map(|window| SlidingWindow { window, pattern: each("attention.sliding_window_pattern") }),
        kv_lora_rank: one("attention.kv_lora_rank"),
        rope_dim: one("rope.dimension_count"),
        recurrent: one("ssm.inner_size").map(|d_inner| Recurrent {
            d_conv: one("ssm.conv_kernel").unwrap_or(0),
            d_inner,
            d_state: one("ssm.state_size").unwrap_or(0),
            n_group: one("ssm.group_count").unwrap_or(0),
        }),
        encoder: one("attention.causal") == Some(0),
        pooled: pooling,
        ..Hyper::default()
    }
}

/// Reads the settings from a measured command line.
fn settings(args: &str) -> LlamacppSettings<'static> {
    let mut settings = LlamacppSettings::default();
    let mut words = args.split_whitespace().peekable();
    let (mut slots, mut unified) = (None, false);
    while let Some(word) = words.next() {
        if word == "--kv-unified" {
            unified = true;
            continue;
        }
        if matches!(word, "--embedding" | "--reranking") {
            continue;
        }
        let value = words.next().unwrap();
        match word {
            "-c" => settings.context = Some(number(value)),
            "-b" => settings.batch = number(value),
            "-ub" => settings.ubatch = number(value),
            "-np" => slots = Some(number(value)),
            "-fa" => settings.flash_attn = Some(value == "on"),
            "-ctk" => settings.cache_type_k = CacheType::parse(value).unwrap(),
            "-ctv" => settings.cache_type_v = CacheType::parse(value).unwrap(),
            "--load-mode" => settings.mmap = value == "mmap",
            other => panic!("what is {other}?"),
        }
    }
    if let Some(slots) = slots {
        settings.slots = Slots::Fixed { slots, unified };
    }
    settings
}

#[test]
fn what_llama_server_reports_is_within_a_tenth_of_the_estimate() {
    println!("model | arguments | weights | cache | compute and output | total: predicted / measured, MiB");
    assert_eq!(compare(MEASURED, 0.1), 286, "rows are missing");
}

#[test]
fn other_architectures_are_within_a_tenth_as_well() {
    compare(ARCHITECTURES, 0.1);
}

/// Prints the table and returns the number of runs.
fn compare(table: &str, most: f64) -> usize {
    let (mut worst, mut bad, mut count) = (0.0_f64, Vec::new(), 0);
    let mut missing = 0;
    for row in rows(table) {
        let facts = facts(row[0]);
        let estimate = estimate_llamacpp(&facts, &settings(row[1])).unwrap();
        // Hundredths of MiB: weights, cache, states, compute, output.
        let part = |at: usize| number(row[at]) as f64 / 100.0;
        let measured = [part(6), part(7) + part(8), part(9) + part(10)];
        let mib = |bytes: u64| bytes as f64 / MIB as f64;
        let predicted = [mib(estimate.weights), mib(estimate.kv_cache), mib(estimate.compute)];
        let (sum, real): (f64, f64) = (predicted.iter().sum(), measured.iter().sum());
        assert!((mib(estimate.total) - sum).abs() < 0.001, "the parts are the total");
        let off = sum / real - 1.0;
        let cells: Vec<String> =
            predicted.iter().zip(measured).map(|(it, real)| format!("{it:.2} / {real:.2}")).collect();
        let line = format!(
            "| {} | `{}` | {} | {sum:.2} / {real:.2} | {:+.1} % |",
            row[0],
            row[1],
            cells.join(" | "),
            off * 100.0
        );
        println!("{line}");
        missing += u32::from(!DOC.lines().any(|it| it == line));
        worst = worst.max(off.abs());
        count += 1;
        if off.abs() > most {
            bad.push(line);
        }
    }
    println!("{count} runs, the largest deviation is {:.1} %", worst * 100.0);
    assert!(bad.is_empty(), "off by more than {:.0} %:\n{}", most * 100.0, bad.join("\n"));
    assert_eq!(missing, 0, "lines that `docs/memory-estimate.md` lacks");
    count
}
