//! Variable-length integers: LEB128 as in Protocol Buffers (<https://protobuf.dev/programming-guides/encoding/>), seven
//! bits to a byte, lowest first. Signed integers use the zigzag form.

/// Appends a number.
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed number; numbers near zero stay short, whatever their sign.
pub fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Takes a number off the front; `None` if there is none.
#[inline]
pub fn take(bytes: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = bytes.split_first()?;
    if first < 0x80 {
        *bytes = rest;
        return Some(first.into());
    }
    let mut value = 0;
    for (at, byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            *bytes = &bytes[at + 1..];
            return Some(value);
        }
    }
    None
}

/// Takes a signed number off the front.
#[inline]
pub fn take_signed(bytes: &mut &[u8]) -> Option<i64> {
    let raw = take(bytes)?;
    Some((raw >> 1) as i64 ^ -((raw & 1) as i64))
}

/// Takes `len` bytes off the front.
#[inline]
pub fn take_bytes<'a>(bytes: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_written_is_read(values in proptest::collection::vec(any::<(u64, i64)>(), 0..20)) {
            let mut out = Vec::new();
            for (plain, signed) in &values {
                put(&mut out, *plain);
                put_signed(&mut out, *signed);
            }
            let mut rest = &out[..];
            for value in values {
                prop_assert_eq!((take(&mut rest).unwrap(), take_signed(&mut rest).unwrap()), value);
            }
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn garbage_never_panics(bytes: Vec<u8>) {
            let mut rest = &bytes[..];
            while take(&mut rest).is_some() {}
        }
    }
}
