//! Tests of safetensors headers: their totals, and the errors of damaged files.

use std::io::Cursor;

use gantry_inspect::safetensors::{SafetensorsError, SafetensorsHeader, read_header, read_header_with};
use proptest::prelude::*;

fn file(json: &str, data: u64) -> (Vec<u8>, u64) {
    let head = [&(json.len() as u64).to_le_bytes()[..], json.as_bytes()].concat();
    let size = head.len() as u64 + data;
    (head, size)
}

fn read(json: &str, data: u64) -> Result<SafetensorsHeader, SafetensorsError> {
    let (head, size) = file(json, data);
    read_header(Cursor::new(head), size)
}

const GOOD: &str = r#"{"__metadata__":{"format":"pt"},
    "b":{"dtype":"BF16","shape":[4,2],"data_offsets":[8,24]},
    "a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},
    "empty":{"dtype":"I64","shape":[0,5],"data_offsets":[8,8]}}   "#;

#[test]
fn tensors_are_summed_by_type() {
    let header = read(GOOD, 24).unwrap();
    assert_eq!((header.tensor_count, header.tensor_bytes), (3, 24));
    let bf16 = header.by_dtype["BF16"];
    assert_eq!((bf16.tensors, bf16.elements, bf16.bytes), (1, 8, 16));
    let mut seen = Vec::new();
    let (head, size) = file(GOOD, 24);
    read_header_with(Cursor::new(head), size, &mut |it| seen.push((it.name.to_owned(), it.shape.to_vec())))
        .unwrap();
    assert_eq!(seen[0], ("b".to_owned(), vec![4, 2]));
}

#[test]
fn what_is_wrong_is_said() {
    let one = |dtype: &str, shape: &str, offsets: &str| {
        format!(r#"{{"t":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#)
    };
    let refusal = |json: &str, data| read(json, data).unwrap_err().to_string();
    for (json, data, expected) in [
        (
            one("F32", "[2]", "[0,8]"),
            4,
            "the file ends before its tensors do: 70 bytes are needed, it has 66; the download is incomplete",
        ),
        (one("F32", "[2]", "[0,8]"), 9, "1 bytes follow the last tensor; the file is damaged"),
        (one("F32", "[2]", "[0,9]"), 9, "tensor `t` occupies 9 bytes, its shape needs 8"),
        (one("F32", "[2]", "[4,12]"), 12, "the tensors leave a gap or overlap at byte 0 of the data"),
        (one("F32", "[2]", "[8,0]"), 8, "tensor `t` has a shape or a place that can't be"),
        (one("F4", "[3]", "[0,1]"), 1, "tensor `t` has a shape or a place that can't be"),
        (one("F33", "[2]", "[0,8]"), 8, "tensor `t` has the unknown type `F33`"),
        (
            one("F32", "[4294967296,4294967296]", "[0,8]"),
            8,
            "tensor `t` has a shape or a place that can't be",
        ),
    ] {
        assert_eq!(refusal(&json, data), expected);
    }
    let twice = r#"{"t":{"dtype":"I8","shape":[1],"data_offsets":[0,1]},"t":{"dtype":"I8","shape":[1],"data_offsets":[1,2]}}"#;
    assert_eq!(refusal(twice, 2), "two tensors have the same name");
    assert!(refusal("[]", 0).starts_with("the header is damaged: it is not valid JSON"));
    assert!(refusal(r#"{"t":{"dtype":"#, 0).starts_with("the header is damaged: it is not valid JSON"));
    let dims = format!("[{}1]", "1,".repeat(40));
    assert!(refusal(&one("I8", &dims, "[0,1]"), 1).contains("at most 16 dimensions"));
}

#[test]
fn impossible_lengths_are_refused_unread() {
    let refusal = |len: u64, size| read_header(Cursor::new(len.to_le_bytes()), size).unwrap_err().to_string();
    assert!(refusal(u64::MAX, u64::MAX).starts_with("not a safetensors file: the header claims"));
    assert!(refusal(100_000_001, 1 << 40).contains("at most 100000000"));
    assert_eq!(
        refusal(1000, 8),
        "the file ends inside its header: 1008 bytes are needed, it has 8; download it again"
    );
    let of = |bytes: &[u8]| read_header(Cursor::new(bytes), bytes.len() as u64).unwrap_err().to_string();
    assert_eq!(of(b""), "the file is empty; download it again");
    assert_eq!(
        of(b"abc"),
        "the file ends inside its header: 8 bytes are needed, it has 3; download it again"
    );
    assert!(
        of(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
            .starts_with("this is a git-lfs pointer")
    );
}

#[test]
fn deep_and_long_json_is_refused() {
    let nested = format!(r#"{{"__metadata__":{}1{}}}"#, "[".repeat(200), "]".repeat(200));
    assert_eq!(
        read(&nested, 0).unwrap_err().to_string(),
        "the header is damaged: it nests deeper than 32 levels"
    );
    let long = format!(r#"{{"{}":1}}"#, "x".repeat(9 << 20));
    assert!(read(&long, 0).unwrap_err().to_string().contains("it holds a text of more than 8388608 bytes"));
}

#[test]
fn every_truncation_of_a_good_header_is_an_error() {
    let (head, size) = file(GOOD, 24);
    for len in 0..head.len() {
        assert!(read_header(Cursor::new(&head[..len]), len as u64).is_err(), "cut at {len}");
    }
    assert!(read_header(Cursor::new(&head), size).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn a_mutated_header_is_read_or_refused(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        size in prop_oneof![Just(1000_u64), any::<u64>()],
    ) {
        let (mut head, _) = file(GOOD, 24);
        for (at, byte) in edits {
            let at = at.index(head.len());
            head[at] = byte;
        }
        let _ = read_header(Cursor::new(head), size);
    }
}
