//! Reads the rows back for the shipper, and cleans up behind it.
//!
//! For the boot that runs now, only finals count. For boots that are over, an intent without a final is a request
//! during which the gateway died: the intent is its row. A segment is deleted when it is closed, all its rows are
//! stored and each of its intents has met its final. After a crash between storing rows and [`Reader::commit`] they
//! appear again; they can be recognized by their ids.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use gantry_domain::usage::UsageRow;
use uuid::Uuid;

use super::{
    codec::{self, MAGIC, OLD_MAGIC, Parsed, RecordKind, SEGMENT_HEAD},
    dir::{self, SegmentId, WATERMARK},
};

/// Bytes read from a segment at once; more than any record.
const CHUNK: u64 = 1 << 20;

/// Rows read but not yet committed.
#[derive(Debug, Default)]
pub struct Batch {
    /// Rows to store, at most as many as were asked for. Their ids make storing them twice harmless.
    pub rows: Vec<UsageRow>,
    /// Whether more rows are ready.
    pub more: bool,
    cursors: BTreeMap<SegmentId, u64>,
    events: Vec<Event>,
    torn: u64,
    /// Finals of the boot that runs now.
    live: u64,
}

#[derive(Debug)]
enum Event {
    Began(Uuid, Intent),
    Ended(Uuid),
}

/// An intent without a final so far.
#[derive(Debug)]
struct Intent {
    segment: SegmentId,
    /// Kept for boots that are over.
    row: Option<Box<UsageRow>>,
}

/// Tails the spool for the shipper. All calls block on file I/O: use `spawn_blocking`.
#[derive(Debug)]
pub struct Reader {
    dir: PathBuf,
    /// How far rows were stored by readers before this one.
    stored: HashMap<SegmentId, u64>,
    /// How far this one has read and committed.
    cursors: BTreeMap<SegmentId, u64>,
    open: HashMap<Uuid, Intent>,
    torn: u64,
    backlog_bytes: u64,
    /// The boot of the data plane of this process, once it runs.
    own: Option<Uuid>,
    live: u64,
}

/// What the directory holds at one moment.
struct Listing {
    segments: Vec<SegmentId>,
    live: Option<Uuid>,
}

impl Listing {
    /// Returns whether nothing is appended to the segment any more.
    fn is_closed(&self, id: SegmentId) -> bool {
        let later = |it: &SegmentId| (it.boot, it.thread) == (id.boot, id.thread) && it.seq > id.seq;
        self.is_over(id) || self.segments.iter().any(later)
    }

    fn is_over(&self, id: SegmentId) -> bool {
        self.live != Some(id.boot)
    }
}

/// A segment that is being read.
struct Segment<'a> {
    id: SegmentId,
    listing: &'a Listing,
    /// How far its rows were stored by readers before this one.
    stored: u64,
}

/// A part of a segment.
struct Chunk<'a> {
    bytes: &'a [u8],
    /// Where it begins in its file.
    base: u64,
    /// Nothing follows it in the file.
    at_end: bool,
}

impl Segment<'_> {
    /// Adds the records of a chunk to the batch, until that has `max` rows. Returns how many bytes of the chunk are done
    /// with.
    fn read(&self, chunk: &Chunk<'_>, max: usize, batch: &mut Batch) -> usize {
        let bytes = chunk.bytes;
        let mut at = 0;
        if chunk.base == 0 {
            let never_begun = MAGIC.starts_with(bytes) || is_empty(bytes);
            if bytes.starts_with(MAGIC) && bytes.len() >= SEGMENT_HEAD {
                at = SEGMENT_HEAD;
            } else if bytes.starts_with(OLD_MAGIC) {
                at = OLD_MAGIC.len();
            } else if never_begun && !self.is_closed() {
                return 0;
            } else {
                // The segment was never begun, or is of another version: nothing in it can be read.
                batch.torn += u64::from(!never_begun);
                return bytes.len();
            }
        }
        while at < bytes.len() && batch.rows.len() < max {
            match codec::parse(&bytes[at..]) {
                Parsed::Record { kind, row, len } => {
                    at += len;
                    self.note(kind, row, chunk.base + at as u64, batch);
                }
                // The rest of the record comes with the next chunk.
                Parsed::Short if !chunk.at_end => break,
                // The record is being written, or a failed write is about to be taken back.
                Parsed::Short | Parsed::Damaged if !self.is_closed() => break,
                // Its writer ended before it could cut off what it had allocated.
                Parsed::Short | Parsed::Damaged if is_empty(&bytes[at..]) => at = bytes.len(),
                Parsed::Short | Parsed::Damaged => {
                    batch.torn += 1;
                    at = next_record(bytes, at + 1);
                }
            }
        }
        at
    }

    /// Adds a record, which ends at `end` in the file.
    fn note(&self, kind: RecordKind, row: Box<UsageRow>, end: u64, batch: &mut Batch) {
        match kind {
            RecordKind::Intent => {
                let kept = self.listing.is_over(self.id).then(|| row.clone());
                batch.events.push(Event::Began(row.id, Intent { segment: self.id, row: kept }));
            }
            RecordKind::Final => {
                batch.events.push(Event::Ended(row.id));
                batch.live += u64::from(!self.listing.is_over(self.id));
                if end > self.stored {
                    batch.rows.push(*row);
                }
            }
        }
    }

    fn is_closed(&self) -> bool {
        self.listing.is_closed(self.id)
    }
}

/// Whether nothing was written there.
fn is_empty(bytes: &[u8]) -> bool {
    bytes.iter().all(|it| *it == 0)
}

/// Returns how many bytes of a segment are written. A closed one may have zeros behind its records, which count.
fn written(file: &mut File, closed: bool) -> io::Result<u64> {
    let len = file.metadata()?.len();
    if closed {
        return Ok(len);
    }
    let mut head = Vec::with_capacity(SEGMENT_HEAD);
    file.take(SEGMENT_HEAD as u64).read_to_end(&mut head)?;
    let said = head.strip_prefix(MAGIC).and_then(|it| it.first_chunk()).map(|it| u64::from_le_bytes(*it));
    Ok(said.filter(|it| *it > 0).map_or(len, |it| it.min(len)))
}

/// Returns where the next record begins that can be read, from `from` on; the end of `bytes` if there is none.
fn next_record(bytes: &[u8], from: usize) -> usize {
    let is_record = |at: &usize| matches!(codec::parse(&bytes[*at..]), Parsed::Record { .. });
    (from..bytes.len()).find(is_record).unwrap_or(bytes.len())
}

impl Reader {
    /// Opens the spool of a data plane that was started with this directory.
    ///
    /// # Errors
    /// The directory can't be read.
    pub fn open(dir: &Path) -> io::Result<Self> {
        let mut stored = HashMap::new();
        match fs::read_to_string(dir.join(WATERMARK)) {
            Ok(text) => stored.extend(text.lines().filter_map(|line| {
                let (name, offset) = line.split_once(' ')?;
                Some((SegmentId::parse(name)?, offset.parse().ok()?))
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(Self {
            dir: dir.to_owned(),
            stored,
            cursors: BTreeMap::new(),
            open: HashMap::new(),
            torn: 0,
            backlog_bytes: 0,
            own: None,
            live: 0,
        })
    }

    /// Says that `boot` runs in this process: its open segments are not taken for those of a dead gateway, even if the lock
    /// is gone.
    pub fn follow(&mut self, boot: Uuid) {
        self.own = Some(boot);
    }

    /// Returns up to `max` rows that were not committed. Without a [`Reader::commit`] in between it returns the same
    /// rows again.
    ///
    /// # Errors
    /// A file can't be read.
    pub fn read_batch(&mut self, max: usize) -> io::Result<Batch> {
        loop {
            let listing = self.list()?;
            self.reread_ended(&listing);
            self.count(&listing);
            let mut batch = Batch::default();
            for id in &listing.segments {
                self.read_segment(*id, &listing, max, &mut batch)?;
                if batch.rows.len() >= max {
                    batch.more = true;
                    break;
                }
            }
            if batch.rows.is_empty() && batch.cursors.is_empty() {
                self.interrupted(&listing, max, &mut batch);
                self.clean(&listing)?;
            }
            if !batch.rows.is_empty() || batch.cursors.is_empty() {
                return Ok(batch);
            }
            // The batch has only intents, or rows that are stored already: there is nothing for the caller to do.
            self.commit(batch)?;
        }
    }

    /// Remembers on disk that the batch is stored, and deletes segments that are done with.
    ///
    /// # Errors
    /// The watermark can't be written; the rows will be read again after a restart.
    pub fn commit(&mut self, batch: Batch) -> io::Result<()> {
        self.torn += batch.torn;
        self.live += batch.live;
        for event in batch.events {
            match event {
                Event::Began(id, intent) => drop(self.open.insert(id, intent)),
                Event::Ended(id) => drop(self.open.remove(&id)),
            }
        }
        self.cursors.extend(batch.cursors);
        let listing = self.list()?;
        self.clean(&listing)?;
        self.save()
    }

    fn list(&self) -> io::Result<Listing> {
        // A boot writes its name before it creates files. Because the files are listed first, the live boot is never taken for
        // dead.
        let segments = dir::segments(&self.dir)?;
        let live = match self.own {
            Some(boot) => Some(boot),
            None => dir::live_boot(&self.dir)?,
        };
        Ok(Listing { segments, live })
    }

    /// Returns how many rows of requests that ended in the boot that runs now were committed.
    pub fn live(&self) -> u64 {
        self.live
    }

    /// Returns how many damaged places were skipped since it was opened. A power loss may leave one at the end of a
    /// segment; `kill -9` does not.
    pub fn torn(&self) -> u64 {
        self.torn
    }

    /// Returns the bytes of the spool that were not committed, as of the last call.
    pub fn backlog_bytes(&self) -> u64 {
        self.backlog_bytes
    }

    fn read_segment(
        &self,
        id: SegmentId,
        listing: &Listing,
        max: usize,
        batch: &mut Batch,
    ) -> io::Result<()> {
        let mut cursor = self.cursors.get(&id).copied().unwrap_or(0);
        let begin = cursor;
        let mut file = match File::open(id.path(&self.dir)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let len = written(&mut file, listing.is_closed(id))?;
        let segment = Segment { id, listing, stored: self.stored.get(&id).copied().unwrap_or(0) };
        let mut bytes = Vec::new();
        while cursor < len && batch.rows.len() < max {
            bytes.clear();
            file.seek(SeekFrom::Start(cursor))?;
            (&mut file).take(CHUNK).read_to_end(&mut bytes)?;
            let at_end = cursor + bytes.len() as u64 >= len;
            let chunk = Chunk { bytes: &bytes, base: cursor, at_end };
            let used = segment.read(&chunk, max, batch);
            cursor += used as u64;
            if used == 0 {
                break;
            }
        }
        if cursor > begin {
            batch.cursors.insert(id, cursor);
        }
        Ok(())
    }

    /// Makes intents be read again whose boot ended while this reader watched it: they were read without their rows.
    fn reread_ended(&mut self, listing: &Listing) {
        let stale = |it: &&Intent| it.row.is_none() && listing.is_over(it.segment);
        let boots: HashSet<Uuid> = self.open.values().filter(stale).map(|it| it.segment.boot).collect();
        if boots.is_empty() {
            return;
        }
        self.open.retain(|_, it| !boots.contains(&it.segment.boot));
        for (id, cursor) in self.cursors.extract_if(.., |id, _| boots.contains(&id.boot)) {
            let stored = self.stored.entry(id).or_default();
            *stored = cursor.max(*stored);
        }
    }

    /// Adds the rows of requests that were interrupted because their boot is over. Called when all segments are read.
    fn interrupted(&self, listing: &Listing, max: usize, batch: &mut Batch) {
        for (id, intent) in &self.open {
            if !listing.is_over(intent.segment) {
                continue;
            }
            if batch.rows.len() >= max {
                batch.more = true;
                return;
            }
            if let Some(row) = &intent.row {
                batch.rows.push((**row).clone());
                batch.events.push(Event::Ended(*id));
            }
        }
    }

    fn count(&mut self, listing: &Listing) {
        let left = listing.segments.iter().map(|id| {
            let cursor = self.cursors.get(id).copied().unwrap_or(0);
            let len =
                File::open(id.path(&self.dir)).and_then(|mut it| written(&mut it, listing.is_closed(*id)));
            len.map_or(0, |it| it.saturating_sub(cursor))
        });
        self.backlog_bytes = left.sum();
    }

    /// Counts the bytes that are left, deletes segments that are done with and forgets those that are gone.
    fn clean(&mut self, listing: &Listing) -> io::Result<()> {
        let needed: HashSet<SegmentId> = self.open.values().map(|it| it.segment).collect();
        let present: HashSet<SegmentId> = listing.segments.iter().copied().collect();
        self.count(listing);
        for id in &listing.segments {
            let path = id.path(&self.dir);
            let Ok(metadata) = fs::metadata(&path) else { continue };
            let cursor = self.cursors.get(id).copied().unwrap_or(0);
            if listing.is_closed(*id) && cursor >= metadata.len() && !needed.contains(id) {
                fs::remove_file(&path)?;
                self.cursors.remove(id);
                self.stored.remove(id);
            }
        }
        // One of the boot that runs now may be put back, see `Writer::keep`.
        self.cursors.retain(|id, _| present.contains(id) || !listing.is_over(*id));
        self.stored.retain(|id, _| present.contains(id));
        Ok(())
    }

    /// Replaces the watermark file atomically, so that a crash leaves the old or the new one.
    fn save(&self) -> io::Result<()> {
        let mut text = String::new();
        for (id, cursor) in &self.cursors {
            let offset = self.stored.get(id).copied().unwrap_or(0).max(*cursor);
            text.extend([&id.file_name(), " ", &offset.to_string(), "\n"]);
        }
        for (id, offset) in self.stored.iter().filter(|(id, _)| !self.cursors.contains_key(id)) {
            text.extend([&id.file_name(), " ", &offset.to_string(), "\n"]);
        }
        let path = self.dir.join(WATERMARK);
        let temporary = path.with_extension("new");
        File::create(&temporary)?.write_all(text.as_bytes())?;
        fs::rename(&temporary, &path)
    }
}
