//! Tests of GGUF headers: golden values of the good fixtures, and the exact error of every bad one.

use std::io::Cursor;

use gantry_inspect::{
    TaskHint,
    gguf::{self, GgufError, GgufHeader, GgufKind, PerLayer, Scalar, Value},
};
use serde_json::json;

use crate::{
    build::{Gguf, text},
    fixtures,
};

/// Reads `head` as the start of a file of `size` bytes.
pub(crate) fn read_sized(head: &[u8], size: u64) -> Result<GgufHeader, GgufError> {
    gguf::read(Cursor::new(head), size)
}

fn read(built: Gguf) -> Result<GgufHeader, GgufError> {
    let (head, size) = built.finish();
    read_sized(&head, size)
}

fn fixture(name: &str) -> Result<GgufHeader, GgufError> {
    read_sized(&fixtures::gguf_head(name), fixtures::gguf_size(name))
}

fn error_text(name: &str) -> String {
    fixture(name).unwrap_err().to_string()
}

fn as_json(value: &Value) -> serde_json::Value {
    match value {
        Value::Scalar(Scalar::Unsigned(it)) => json!(it),
        Value::Scalar(Scalar::Signed(it)) => json!(it),
        Value::Scalar(Scalar::Float(it)) => json!(it),
        Value::Scalar(Scalar::Bool(it)) => json!(it),
        Value::Text(it) => json!(it),
        other => panic!("{other:?} is not a scalar"),
    }
}

#[test]
fn good_fixtures_read_as_the_gguf_package_reads_them() {
    let expected = fixtures::json("gguf/expected.json");
    for (name, values) in expected.as_object().unwrap() {
        let header = fixture(name).unwrap();
        for (key, value) in values.as_object().unwrap() {
            let found = match key.as_str() {
                "__vocab" if value.is_null() => continue,
                "__vocab" => json!(header.vocab_size().unwrap()),
                "__tensor_count" => json!(header.tensors.len()),
                "__tensor_bytes" => json!(header.tensor_bytes()),
                "__n_params" => json!(header.parameter_count()),
                "__file_size" => json!(header.file_len),
                key => as_json(header.get(key).unwrap()),
            };
            assert_eq!(&found, value, "{name}: {key}");
        }
    }
    assert_eq!(expected.as_object().unwrap().len(), 10);
}

#[test]
fn the_typed_facts_of_a_mixture_of_experts_are_right() {
    let header = fixture("tiny-moe-F16.gguf").unwrap();
    assert_eq!(header.architecture(), Some("llama"));
    assert_eq!(header.expert_count(), Some(4));
    assert_eq!(header.expert_used_count(), Some(2));
    assert_eq!(header.head_count(), Some(PerLayer::All(4)));
    assert_eq!(header.head_count_kv(), Some(PerLayer::All(2)));
    assert_eq!((header.key_length(), header.value_length()), (Some(16), Some(16)));
    assert_eq!(header.rope_freq_base(), Some(10000.0));
    assert_eq!(header.quantization("x.gguf").as_deref(), Some("F16"));
    assert_eq!(header.kind(), GgufKind::Model);
    assert_eq!(header.task(), TaskHint::Generate);
    assert!(header.has_chat_template() && header.has_tokenizer());
    assert!(!fixture("tiny-llama-notemplate-F16.gguf").unwrap().has_chat_template());
}

#[test]
fn embedding_and_reranking_models_are_told_by_their_pooling() {
    let task = |name| fixture(name).unwrap().task();
    assert_eq!(task("tiny-bert-embed-F16.gguf"), TaskHint::Embed);
    assert_eq!(task("tiny-bert-rerank-F16.gguf"), TaskHint::Rerank);
}

#[test]
fn parts_of_a_split_model_know_their_place() {
    let first = fixture("tiny-split-F16-00001-of-00002.gguf").unwrap();
    assert_eq!((first.split(), first.split_tensor_count()), (Some((0, 2)), Some(21)));
    assert_eq!(first.kind(), GgufKind::Model);
    let second = fixture("tiny-split-F16-00002-of-00002.gguf").unwrap();
    assert_eq!((second.split(), second.architecture()), (Some((1, 2)), None));
    assert_eq!(second.kind(), GgufKind::Part);
}

#[test]
fn every_broken_fixture_is_refused_for_its_own_reason() {
    for (name, expected) in [
        ("bad-empty.gguf", "the file is empty; download it again"),
        (
            "bad-magic.gguf",
            "this is a GGML file from before GGUF (August 2023); convert it or download a GGUF file",
        ),
        (
            "bad-bigendian.gguf",
            "this is a big-endian GGUF file (version 3); engines on this machine need little-endian",
        ),
        ("bad-version-99.gguf", "GGUF version 99 is not known; versions 1 to 3 are"),
        (
            "bad-truncated-header.gguf",
            "the file ends inside its header, in its first bytes: 351 bytes at offset 24, 176 left; download it again",
        ),
        (
            "bad-truncated.gguf",
            "the file ends before its tensors do: 417056 bytes are needed, it has 208528 (first tensor cut off: \
             `output.weight`); the download is incomplete",
        ),
    ] {
        assert_eq!(error_text(name), expected, "{name}");
    }
}

#[test]
fn what_other_programs_leave_in_place_of_a_model_is_recognised() {
    let refusal = |bytes: &[u8]| read_sized(bytes, bytes.len() as u64).unwrap_err().to_string();
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
    assert!(refusal(pointer).starts_with("this is a git-lfs pointer"));
    assert!(refusal(b"\n<!DOCTYPE html><html>").starts_with("this is a web page"));
    assert!(refusal(b"tjgg\x03\0\0\0").starts_with("this is a GGML file"));
    assert_eq!(
        refusal(b"PK\x03\x04"),
        "not a GGUF file: it starts with the bytes 50 4b 03 04, not with `GGUF`"
    );
    assert_eq!(refusal(b"RIFF"), "not a GGUF file: it starts with `RIFF`, not with `GGUF`");
}

#[test]
fn version_1_has_narrow_counts() {
    let narrow = |it: &str| [&(it.len() as u32).to_le_bytes()[..], it.as_bytes()].concat();
    let head = [
        b"GGUF\x01\0\0\0\x01\0\0\0\x01\0\0\0".to_vec(),
        narrow("general.architecture"),
        8_u32.to_le_bytes().to_vec(),
        narrow("llama"),
        narrow("token_embd.weight"),
        2_u32.to_le_bytes().to_vec(),
        64_u32.to_le_bytes().to_vec(),
        3_u32.to_le_bytes().to_vec(),
        0_u32.to_le_bytes().to_vec(),
        0_u64.to_le_bytes().to_vec(),
    ]
    .concat();
    let header = read_sized(&head, 128 + 64 * 3 * 4).unwrap();
    assert_eq!((header.version, header.architecture(), header.vocab_size()), (1, Some("llama"), Some(3)));
}

#[test]
fn facts_that_differ_by_layer_are_kept() {
    let header = read(
        Gguf::llama(3)
            .u32s("llama.attention.head_count_kv", &[8, 0, 4])
            .array("llama.attention.sliding_window_pattern", 7, 3, &[1, 1, 0])
            .u32("llama.attention.sliding_window", 512)
            .u32("llama.attention.kv_lora_rank", 512)
            .u32("llama.attention.key_length_mla", 192),
    )
    .unwrap();
    assert_eq!(header.head_count_kv(), Some(PerLayer::Each(vec![8, 0, 4])));
    assert_eq!(header.head_count_kv().unwrap().max(), 8);
    assert_eq!(header.sliding_window_pattern(), Some(PerLayer::Each(vec![1, 1, 0])));
    assert_eq!(header.sliding_window(), Some(512));
    assert_eq!(header.mla().map(|it| (it.kv_lora_rank, it.key_length)), Some((512, Some(192))));
    assert_eq!(header.vocab_size(), Some(2));
}

#[test]
fn long_texts_and_arrays_are_skipped_and_what_follows_is_read() {
    let long = "x".repeat(600_000);
    let numbers = vec![0_u8; 4 * 300_000];
    let words: Vec<&str> = std::iter::repeat_n("word", 100_000).collect();
    let header = read(
        Gguf::new()
            .str("a.long", &long)
            .array("b.numbers", 6, 300_000, &numbers)
            .texts("c.words", &words)
            .u32("d.last", 7),
    )
    .unwrap();
    assert_eq!(header.get("a.long"), Some(&Value::LongText(600_000)));
    assert_eq!(header.get("b.numbers"), Some(&Value::Array(300_000)));
    assert_eq!(header.get("c.words"), Some(&Value::Array(100_000)));
    assert_eq!(header.get("d.last").and_then(Value::as_u64), Some(7));
}

#[test]
fn what_llama_cpp_refuses_is_refused() {
    let refusal = |built: Gguf| read(built).unwrap_err().to_string();
    let f32s = |name: &str| Gguf::new().tensor(name, &[32], 0, 128);
    for (built, expected) in [
        (Gguf::new().u32("a", 1).u32("a", 2), "key `a` appears twice"),
        (f32s("t").tensor("t", &[32], 0, 128), "tensor `t` appears twice"),
        (
            f32s("a").tensor_at("b", &[32], 0, 64),
            "tensor `b` is at offset 64, 128 expected; the file is damaged",
        ),
        (Gguf::new().raw("a", 13, &[0; 8]), "key `a` has the unknown value type 13"),
        (Gguf::new().array("a", 9, 1, &[0; 32]), "key `a` holds an array of arrays, which no engine reads"),
        (Gguf::new().u32("general.alignment", 24), "`general.alignment` is 24, not a power of two"),
        (Gguf::new().u32("general.alignment", 0), "`general.alignment` is 0, not a power of two"),
        (Gguf::new().u32("", 0), "key 1 of 1 has a name of 0 bytes; at most 65535 are allowed"),
        (
            Gguf::new().tensor("t", &[1, 1, 1, 1, 1], 0, 4),
            "tensor `t` has 5 dimensions; at most 4 are allowed",
        ),
        (
            Gguf::new().tensor("t", &[40], 2, 32),
            "tensor `t` has rows of 40 elements, not a multiple of 32, the block size of Q4_0",
        ),
        (
            Gguf::new().tensor("t", &[1 << 40, 1 << 40], 0, 32),
            "tensor `t` has more elements than can be counted",
        ),
    ] {
        assert_eq!(refusal(built), expected);
    }
}

#[test]
fn an_unknown_tensor_type_is_kept_for_a_newer_engine() {
    let header = read(Gguf::llama(1).tensor("a", &[32], 999, 64).tensor("b", &[32], 0, 128)).unwrap();
    assert_eq!(header.unknown_type().map(|it| it.ggml_type.to_string()).as_deref(), Some("type 999"));
    assert_eq!(header.tensor_bytes(), 128);
}

#[test]
fn names_that_are_not_text_are_refused_and_values_are_mended() {
    let mut bytes = Gguf::new().u32("ab", 1).finish().0;
    bytes[32] = 0xFF;
    assert_eq!(read_sized(&bytes, 4096).unwrap_err().to_string(), "key 1 of 1 has a name that is not UTF-8");
    let mut value = text("ab");
    value[8] = 0xFF;
    let header = read(Gguf::new().raw("k", 8, &value)).unwrap();
    assert_eq!(header.text("k"), Some("\u{fffd}b"));
}

#[test]
fn the_quantisation_comes_from_the_key_then_the_name_then_the_tensors() {
    let plain = || Gguf::llama(1).tensor("a", &[256], 14, 210).tensor("b", &[32], 0, 128);
    let quant = |built: Gguf, name: &str| read(built).unwrap().quantization(name);
    assert_eq!(quant(plain().u32("general.file_type", 15), "x-Q8_0.gguf").as_deref(), Some("Q4_K_M"));
    assert_eq!(quant(plain().u32("general.file_type", 1024 + 7), "x.gguf").as_deref(), Some("Q8_0"));
    assert_eq!(quant(plain(), "x-Q8_0.gguf").as_deref(), Some("Q8_0"));
    assert_eq!(quant(plain(), "x.gguf").as_deref(), Some("Q6_K"));
}

#[test]
fn a_layer_that_lacks_a_tensor_is_named() {
    let header = fixture("bad-missing-tensor.gguf").unwrap();
    let missing = gguf::missing_block_tensors("llama", 2, header.tensors.iter());
    assert_eq!(missing, ["blk.1.ffn_down.weight"]);
    assert!(gguf::missing_block_tensors("jamba", 2, header.tensors.iter()).is_empty());
}
