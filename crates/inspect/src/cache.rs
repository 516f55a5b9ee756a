//! Headers of files that were read before and have not changed since, so that a folder which is looked at again and
//! again is not read again and again.
//!
//! A file is the same as long as the system says the same of it: device, inode, length, and the times of the last change
//! of its bytes and of anything about it. The last one can't be set back, so that a file which was written over and
//! given its old time is seen too. What could not be read is not kept.

use std::{
    collections::HashMap,
    fs::Metadata,
    hash::Hash,
    os::unix::fs::MetadataExt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{gguf::GgufHeader, json::Picked, safetensors::SafetensorsHeader};

/// Most files of each kind.
const MAX_FILES: usize = 4096;
/// Memory for kept headers, in bytes. With the headers of one set and the largest one on top (see `folder/groups.rs`)
/// an inspection stays below 64 MiB.
const MAX_BYTES: usize = 12 << 20;
/// A header of more than this is not kept: it would push out too many.
const MAX_ENTRY: usize = 1 << 20;

/// What makes a file the same one as before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    len: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    pub(crate) fn of(meta: &Metadata) -> Self {
        Self {
            device: meta.dev(),
            inode: meta.ino(),
            len: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }
}

/// A safetensors header with the weights that its tensors stand for, which depend on the quantisation.
#[derive(Debug, Clone)]
pub(crate) struct Shard {
    pub(crate) header: SafetensorsHeader,
    /// `None` if that can't be told.
    pub(crate) parameters: Option<u64>,
}

/// Method and bits of a quantisation.
pub(crate) type Packing = (String, Option<u64>);

/// Shared by all inspections; see [`crate::folder::inspect_cached`].
#[derive(Debug, Default)]
pub struct Cache {
    pub(crate) gguf: Kept<Stamp, Arc<GgufHeader>>,
    pub(crate) shards: Kept<(Stamp, Option<Packing>), Shard>,
    pub(crate) tokenizers: Kept<Stamp, Picked>,
}

/// The values that were asked for last.
#[derive(Debug)]
pub(crate) struct Kept<K, V>(Mutex<Lru<K, V>>);

#[derive(Debug)]
struct Lru<K, V> {
    entries: HashMap<K, Entry<V>>,
    bytes: usize,
    /// Counts accesses.
    clock: u64,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    bytes: usize,
    used: u64,
}

impl<K, V> Default for Kept<K, V> {
    fn default() -> Self {
        Self(Mutex::new(Lru { entries: HashMap::new(), bytes: 0, clock: 0 }))
    }
}

impl<K: Hash + Eq + Clone, V: Clone> Kept<K, V> {
    fn lru(&self) -> MutexGuard<'_, Lru<K, V>> {
        // Whatever a panic left behind are values and counters that are right by themselves.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let mut lru = self.lru();
        lru.clock = lru.clock.saturating_add(1);
        let now = lru.clock;
        let entry = lru.entries.get_mut(key)?;
        entry.used = now;
        Some(entry.value.clone())
    }

    /// Keeps `value`, of about `bytes`, in place of those that were not asked for longest.
    pub(crate) fn put(&self, key: K, value: V, bytes: usize) {
        if bytes > MAX_ENTRY {
            return;
        }
        let mut lru = self.lru();
        while lru.entries.len() >= MAX_FILES || lru.bytes.saturating_add(bytes) > MAX_BYTES {
            let oldest = lru.entries.iter().min_by_key(|it| it.1.used).map(|it| it.0.clone());
            let Some(gone) = oldest.and_then(|it| lru.entries.remove(&it)) else { break };
            lru.bytes = lru.bytes.saturating_sub(gone.bytes);
        }
        lru.clock = lru.clock.saturating_add(1);
        let used = lru.clock;
        if let Some(before) = lru.entries.insert(key, Entry { value, bytes, used }) {
            lru.bytes = lru.bytes.saturating_sub(before.bytes);
        }
        lru.bytes = lru.bytes.saturating_add(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_asked_for_longest_goes_first_and_memory_is_bounded() {
        let kept = Kept::<usize, usize>::default();
        for n in 0..12 {
            kept.put(n, n, MAX_ENTRY);
        }
        assert_eq!(kept.get(&0), Some(0));
        kept.put(12, 12, MAX_ENTRY);
        assert_eq!((kept.get(&0), kept.get(&1), kept.get(&12)), (Some(0), None, Some(12)));
        kept.put(99, 99, MAX_ENTRY + 1);
        assert_eq!(kept.get(&99), None);
        let small = Kept::<usize, usize>::default();
        for n in 0..=MAX_FILES {
            small.put(n, n, 1);
        }
        assert_eq!((small.get(&0), small.get(&MAX_FILES)), (None, Some(MAX_FILES)));
    }
}
