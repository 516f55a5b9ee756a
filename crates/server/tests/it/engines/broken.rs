//! Broken model files, each made from a good one by changing what is said about it.

/// A number of type `u32` in a GGUF file: key, length, type, value.
const VALUE_OFFSET: usize = 4;

fn place(file: &[u8], text: &str) -> usize {
    file.windows(text.len()).position(|it| it == text.as_bytes()).unwrap_or_else(|| panic!("no `{text}`"))
}

/// The first half.
pub(super) fn truncated(good: &[u8]) -> Vec<u8> {
    good[..good.len() / 2].to_vec()
}

/// With `new` in the place of the first `old`, which has the same length.
pub(super) fn renamed(good: &[u8], old: &str, new: &str) -> Vec<u8> {
    assert_eq!(old.len(), new.len());
    let mut file = good.to_vec();
    let at = place(good, old);
    file[at..at + new.len()].copy_from_slice(new.as_bytes());
    file
}

/// With another architecture, of five letters as `llama` has.
pub(super) fn of_architecture(good: &[u8], name: &str) -> Vec<u8> {
    let key = "general.architecture";
    let mut file = good.to_vec();
    // Behind the key, the type and the length of the value.
    let at = place(good, key) + key.len() + 12;
    file[at..at + 5].copy_from_slice(name.as_bytes());
    file
}

/// With another value of a number of 32 bits.
pub(super) fn with_number(good: &[u8], key: &str, value: u32) -> Vec<u8> {
    let mut file = good.to_vec();
    let at = place(good, key) + key.len() + VALUE_OFFSET;
    file[at..at + 4].copy_from_slice(&value.to_le_bytes());
    file
}

/// With a type that no version knows, of a tensor with two dimensions.
pub(super) fn of_tensor_type(good: &[u8], tensor: &str, kind: u32) -> Vec<u8> {
    let mut file = good.to_vec();
    let at = place(good, tensor) + tensor.len() + 4 + 2 * 8;
    file[at..at + 4].copy_from_slice(&kind.to_le_bytes());
    file
}

/// With these bytes where the version stands.
pub(super) fn of_version(good: &[u8], version: [u8; 4]) -> Vec<u8> {
    let mut file = good.to_vec();
    file[4..8].copy_from_slice(&version);
    file
}

/// As if it were part `number` (from 0) of `count`.
pub(super) fn part(good: &[u8], number: u16, count: u16) -> Vec<u8> {
    const U16: u32 = 2;
    const I32: u32 = 5;
    const BOOL: u32 = 7;
    let entries: [(&str, u32, &[u8]); 4] = [
        ("split.no", U16, &number.to_le_bytes()),
        ("split.count", U16, &count.to_le_bytes()),
        ("split.tensors.count", I32, &21i32.to_le_bytes()),
        // The tensors stay where they were: what is added is a multiple of their alignment.
        ("x", BOOL, &[0]),
    ];
    let mut added = Vec::new();
    for (key, kind, value) in entries {
        added.extend((key.len() as u64).to_le_bytes());
        added.extend(key.as_bytes());
        added.extend(kind.to_le_bytes());
        added.extend(value);
    }
    assert_eq!(added.len() % 32, 0);
    let known = u64::from_le_bytes(good[16..24].try_into().unwrap());
    let mut file = good[..16].to_vec();
    file.extend((known + entries.len() as u64).to_le_bytes());
    file.extend(added);
    file.extend(&good[24..]);
    file
}
