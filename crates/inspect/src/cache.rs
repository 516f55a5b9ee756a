//! A cache of headers that were read before and whose files have not changed since, so that repeated looks at a folder
//! don't read its files again.
//!
//! A file counts as unchanged as long as the system reports the same device, inode, length, time of the last change of
//! its bytes, and time of the last change of anything about it. The last one can't be set back, so a file that was
//! overwritten and given its old time is noticed too. Files that could not be read are not cached.

use std::{collections::HashMap, fs::Metadata, hash::Hash, os::unix::fs::MetadataExt, sync::Arc};

use parking_lot::{Mutex, MutexGuard};

use crate::{gguf::GgufHeader, json::Picked, safetensors::SafetensorsHeader};

/// Most files of each kind that are cached.
const MAX_FILES: usize = 4096;
/// Memory for cached headers, in bytes. Together with the headers of one set and the largest header (see
/// `folder/groups.rs`) an inspection stays below 64 MiB.
const MAX_BYTES: usize = 12 << 20;
/// Longest header that is cached, in bytes. A longer one would push out too many others.
const MAX_ENTRY: usize = 1 << 20;

/// The values by which an unchanged file is recognised.
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

/// A safetensors header, with what was found out from its tensors.
#[derive(Debug, Clone)]
pub(crate) struct Shard {
    pub(crate) header: SafetensorsHeader,
    /// Number of weights, which depends on the quantisation; `None` if it can't be determined.
    pub(crate) parameters: Option<u64>,
    /// Hashes of the tensors' names.
    pub(crate) names: Arc<[u64]>,
}

/// Method and bits of a quantisation.
pub(crate) type Packing = (String, Option<u64>);

/// A cache that all inspections share; see [`crate::folder::inspect_cached`].
#[derive(Debug, Default)]
pub struct Cache {
    pub(crate) gguf: Kept<Stamp, Arc<GgufHeader>>,
    pub(crate) shards: Kept<(Stamp, Option<Packing>), Shard>,
    pub(crate) tokenizers: Kept<Stamp, Picked>,
}

/// A cache that keeps the most recently used values.
#[derive(Debug)]
pub(crate) struct Kept<K, V>(Mutex<Lru<K, V>>);

#[derive(Debug)]
struct Lru<K, V> {
    entries: HashMap<K, Entry<V>>,
    bytes: usize,
    /// Counter of accesses.
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
        self.0.lock()
    }

    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let mut lru = self.lru();
        lru.clock = lru.clock.saturating_add(1);
        let now = lru.clock;
        let entry = lru.entries.get_mut(key)?;
        entry.used = now;
        Some(entry.value.clone())
    }

    /// Keeps `value`, of about `bytes`, and drops the values that were unused for longest.
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
