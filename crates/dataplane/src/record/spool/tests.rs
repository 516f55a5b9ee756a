//! Checks what must hold after any crash: no row is lost, and no committed row comes twice.

use std::{
    fs,
    io::{Seek, SeekFrom, Write},
    path::Path,
    time::Duration,
};

use gantry_domain::{
    KeyId, OrgId, Timestamp,
    endpoint::Endpoint,
    model::Task,
    usage::{Outcome, UsageRow, id_at},
};
use proptest::prelude::*;
use tempfile::TempDir;
use uuid::Uuid;

use super::{Lock, Reader, RowRef, SegmentLimits, Writer};

const LIMITS: SegmentLimits = SegmentLimits { bytes: 16 << 20, age: Duration::from_mins(1), allocate: true };
/// Both kinds of segments. Where the file system can allocate none, they are the same.
const KINDS: [SegmentLimits; 2] = [LIMITS, SegmentLimits { allocate: false, ..LIMITS }];
/// Bytes before the first record.
const HEAD: usize = 16;

fn row(n: u128) -> RowRef<'static> {
    RowRef {
        id: id_at(Timestamp(1_795_219_804_123), n),
        req_id: "req-1",
        created_at: Timestamp(1_795_219_804_123),
        key_id: Some(KeyId(7)),
        key_prefix: Some("gty_abcdefgh"),
        user_id: None,
        org_id: Some(OrgId(2)),
        model_name: "qwen3:8b",
        task: Task::Generate,
        endpoint: Endpoint::ChatCompletions,
        stream: true,
        prompt_tokens: 12,
        completion_tokens: 6,
        cached_tokens: None,
        estimated: false,
        latency_ms: 345,
        ttft_ms: Some(0),
        status_code: 200,
        outcome: Outcome::Ok,
        requests: 1,
    }
}

struct Spool {
    dir: TempDir,
    lock: Option<Lock>,
    boot: Uuid,
}

impl Spool {
    fn new() -> Self {
        let mut it = Self { dir: tempfile::tempdir().unwrap(), lock: None, boot: Uuid::nil() };
        it.boot(1);
        it
    }

    /// Ends the previous boot, as a kill would: no file is closed properly.
    fn boot(&mut self, n: u128) -> Writer {
        self.lock = None;
        self.boot = Uuid::from_u128(n);
        self.lock = Some(Lock::take(self.dir.path(), self.boot).unwrap());
        self.writer(LIMITS)
    }

    fn writer(&self, limits: SegmentLimits) -> Writer {
        Writer::new(self.path().to_owned(), self.boot, 0, limits)
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the only segment with its records and the zeros behind them.
    fn log(&self) -> (std::path::PathBuf, Vec<u8>, usize) {
        let log = self.logs().remove(0);
        let mut bytes = fs::read(&log).unwrap();
        let said = u64::from_le_bytes(bytes[8..HEAD].try_into().unwrap()) as usize;
        let len = if said == 0 { bytes.len() } else { said };
        let zeros = bytes.split_off(len);
        assert!(zeros.iter().all(|it| *it == 0));
        (log, bytes, zeros.len())
    }

    fn logs(&self) -> Vec<std::path::PathBuf> {
        let all = fs::read_dir(self.path()).unwrap().map(|it| it.unwrap().path());
        let mut logs: Vec<_> = all.filter(|it| it.extension().is_some_and(|it| it == "log")).collect();
        logs.sort();
        logs
    }
}

fn ids(rows: &[UsageRow]) -> Vec<Uuid> {
    rows.iter().map(|it| it.id).collect()
}

fn drain(reader: &mut Reader) -> Vec<UsageRow> {
    let mut all = Vec::new();
    loop {
        let batch = reader.read_batch(3).unwrap();
        if batch.rows.is_empty() {
            return all;
        }
        all.extend(batch.rows.iter().cloned());
        reader.commit(batch).unwrap();
    }
}

#[test]
fn a_row_is_read_as_it_was_written() {
    let spool = Spool::new();
    let mut writer = spool.writer(LIMITS);
    writer.finish(&row(1)).unwrap();
    let other = RowRef {
        cached_tokens: Some(3),
        ttft_ms: None,
        key_prefix: None,
        key_id: None,
        estimated: true,
        requests: 70_000,
        ..row(2)
    };
    writer.finish(&other).unwrap();
    let rows = drain(&mut Reader::open(spool.path()).unwrap());
    let (first, second) = (&rows[0], &rows[1]);
    assert_eq!(
        (first.id, first.req_id.as_str(), first.key_prefix.as_deref()),
        (row(1).id, "req-1", Some("gty_abcdefgh"))
    );
    assert_eq!(
        (first.org_id, first.user_id, first.ttft_ms, first.stream),
        (Some(OrgId(2)), None, Some(0), true)
    );
    assert_eq!((first.prompt_tokens, first.completion_tokens, first.latency_ms), (12, 6, 345));
    assert_eq!((second.cached_tokens, second.ttft_ms, second.key_prefix.as_deref()), (Some(3), None, None));
    assert_eq!((second.key_id, second.estimated, second.outcome), (None, true, Outcome::Ok));
    assert_eq!((first.requests, second.requests), (1, 70_000));
}

#[test]
fn what_was_not_committed_comes_again_and_what_was_does_not() {
    let spool = Spool::new();
    let mut writer = spool.writer(LIMITS);
    (0..5).for_each(|n| writer.finish(&row(n)).unwrap());
    let mut reader = Reader::open(spool.path()).unwrap();
    let lost = reader.read_batch(3).unwrap();
    assert!(lost.more);
    let again = reader.read_batch(3).unwrap();
    assert_eq!(ids(&lost.rows), ids(&again.rows));
    reader.commit(again).unwrap();
    // A new process continues at the watermark.
    let rest = drain(&mut Reader::open(spool.path()).unwrap());
    assert_eq!(ids(&rest), [row(3).id, row(4).id]);
}

#[test]
fn intents_of_a_killed_boot_become_rows_and_its_files_go() {
    let mut spool = Spool::new();
    let mut writer = spool.writer(LIMITS);
    for n in 0..4 {
        writer.intent(&RowRef { status_code: 500, outcome: Outcome::UpstreamError, ..row(n) }).unwrap();
    }
    writer.finish(&row(0)).unwrap();
    writer.finish(&row(2)).unwrap();
    // While the boot lives, running requests are not rows.
    let mut reader = Reader::open(spool.path()).unwrap();
    assert_eq!(ids(&drain(&mut reader)), [row(0).id, row(2).id]);

    spool.boot(2);
    let mut last = None;
    for mut reader in [Reader::open(spool.path()).unwrap(), reader] {
        let batch = reader.read_batch(10).unwrap();
        let mut seen: Vec<_> = batch.rows.iter().map(|it| (it.id, it.status_code)).collect();
        seen.sort_unstable();
        // The same holds for a reader that was open meanwhile; the first one did not commit.
        assert_eq!(seen, [(row(1).id, 500), (row(3).id, 500)]);
        last = Some((reader, batch));
    }
    let (mut reader, batch) = last.unwrap();
    reader.commit(batch).unwrap();
    assert_eq!(drain(&mut Reader::open(spool.path()).unwrap()), []);
    assert!(spool.logs().is_empty(), "{:?}", spool.logs());
}

#[test]
fn a_segment_stays_while_one_of_its_intents_is_open() {
    let spool = Spool::new();
    let mut writer = spool.writer(LIMITS);
    writer.intent(&row(1)).unwrap();
    writer.rotate(None);
    writer.finish(&row(2)).unwrap();
    let mut reader = Reader::open(spool.path()).unwrap();
    assert_eq!(ids(&drain(&mut reader)), [row(2).id]);
    assert_eq!(spool.logs().len(), 2);
    writer.finish(&row(1)).unwrap();
    assert_eq!(ids(&drain(&mut reader)), [row(1).id]);
    assert_eq!(spool.logs().len(), 1);
    assert_eq!(reader.backlog_bytes(), 0);
}

#[test]
fn a_torn_tail_is_skipped_and_counted() {
    for limits in KINDS {
        let mut spool = Spool::new();
        let mut writer = spool.writer(limits);
        writer.finish(&row(1)).unwrap();
        let (log, whole, _) = spool.log();
        let mut file = fs::OpenOptions::new().write(true).open(&log).unwrap();
        file.seek(SeekFrom::Start(whole.len() as u64)).unwrap();
        file.write_all(&whole[HEAD..HEAD + 32]).unwrap();
        let mut reader = Reader::open(spool.path()).unwrap();
        assert_eq!(ids(&drain(&mut reader)), [row(1).id]);
        // It could still be completed.
        assert_eq!(reader.torn(), 0);
        spool.boot(2);
        let mut reader = Reader::open(spool.path()).unwrap();
        assert_eq!(drain(&mut reader), []);
        assert_eq!((reader.torn(), spool.logs().len()), (1, 0));
    }
}

#[test]
fn a_segment_has_as_much_left_as_was_written_and_not_read() {
    for limits in KINDS {
        let spool = Spool::new();
        let mut writer = spool.writer(limits);
        let mut reader = Reader::open(spool.path()).unwrap();
        writer.finish(&row(1)).unwrap();
        let (_, whole, _) = spool.log();
        let batch = reader.read_batch(3).unwrap();
        assert_eq!(reader.backlog_bytes(), whole.len() as u64);
        reader.commit(batch).unwrap();
        assert_eq!(reader.backlog_bytes(), 0);
        writer.rotate(None);
        writer.take_closed().into_iter().for_each(|it| it.sync().unwrap());
        let (log, _, zeros) = spool.log();
        assert_eq!((fs::metadata(&log).unwrap().len(), zeros), (whole.len() as u64, 0));
    }
}

#[test]
fn a_full_segment_is_followed_by_another_and_none_is_torn() {
    for limits in KINDS {
        let mut spool = Spool::new();
        let mut writer = spool.writer(SegmentLimits { bytes: 1000, ..limits });
        (0..50).for_each(|n| writer.finish(&row(n)).unwrap());
        assert!(spool.logs().len() > 5, "{:?}", spool.logs());
        // The last one was not closed.
        spool.boot(2);
        let mut reader = Reader::open(spool.path()).unwrap();
        assert_eq!(ids(&drain(&mut reader)), (0..50).map(|n| row(n).id).collect::<Vec<_>>());
        assert_eq!((reader.torn(), reader.backlog_bytes(), spool.logs().len()), (0, 0, 0));
    }
}

#[test]
fn segments_of_an_older_program_are_read() {
    let mut spool = Spool::new();
    let mut writer = spool.writer(LIMITS);
    (0..3).for_each(|n| writer.finish(&row(n)).unwrap());
    let (log, whole, _) = spool.log();
    fs::write(&log, [b"GTYSPL1\n", &whole[HEAD..]].concat()).unwrap();
    spool.boot(2);
    let mut reader = Reader::open(spool.path()).unwrap();
    assert_eq!(ids(&drain(&mut reader)), [row(0).id, row(1).id, row(2).id]);
    assert_eq!((reader.torn(), spool.logs().len()), (0, 0));
}

#[test]
fn two_gateways_can_not_share_a_spool() {
    let spool = Spool::new();
    let error = Lock::take(spool.path(), Uuid::from_u128(9)).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn a_segment_of_this_process_is_open_also_without_a_lock() {
    for limits in KINDS {
        let spool = Spool::new();
        let mut writer = spool.writer(limits);
        let mut reader = Reader::open(spool.path()).unwrap();
        reader.follow(spool.boot);
        writer.intent(&row(1)).unwrap();
        fs::remove_file(spool.path().join("lock")).unwrap();
        assert_eq!(drain(&mut reader), []);
        writer.finish(&row(1)).unwrap();
        writer.finish(&row(2)).unwrap();
        assert_eq!(ids(&drain(&mut reader)), [row(1).id, row(2).id]);
        assert_eq!((reader.live(), writer.take_written(), spool.logs().len()), (2, 2, 1));
    }
}

#[test]
fn a_removed_segment_is_put_back_and_read_on_from_where_it_was() {
    for limits in KINDS {
        let spool = Spool::new();
        let mut writer = spool.writer(limits);
        let mut reader = Reader::open(spool.path()).unwrap();
        reader.follow(spool.boot);
        writer.finish(&row(1)).unwrap();
        assert_eq!(ids(&drain(&mut reader)), [row(1).id]);
        assert!(!writer.keep().unwrap());
        fs::remove_dir_all(spool.path()).unwrap();
        writer.finish(&row(2)).unwrap();
        assert!(reader.read_batch(3).is_err());
        assert!(writer.keep().unwrap() && !writer.keep().unwrap());
        writer.finish(&row(3)).unwrap();
        assert_eq!(ids(&drain(&mut reader)), [row(2).id, row(3).id]);
        assert_eq!((reader.live(), writer.take_written()), (3, 3));
        // The one that was put back is closed, and deleted when its rows are stored.
        assert_eq!(spool.logs().len(), 1);
    }
}

#[test]
fn a_lock_that_is_gone_is_taken_again_unless_another_gateway_has_it() {
    let spool = Spool::new();
    let (lock, file) = (spool.lock.as_ref().unwrap(), spool.path().join("lock"));
    assert!(!lock.keep().unwrap());
    fs::remove_file(&file).unwrap();
    assert!(lock.keep().unwrap() && !lock.keep().unwrap());
    assert_eq!(fs::read_to_string(&file).unwrap(), spool.boot.simple().to_string());
    fs::remove_file(&file).unwrap();
    let other = Lock::take(spool.path(), Uuid::from_u128(9)).unwrap();
    assert!(lock.keep().is_err());
    drop(other);
    assert!(lock.keep().unwrap());
}

#[test]
fn a_failed_write_is_made_good_later() {
    let spool = Spool::new();
    let gone = spool.path().join("gone");
    let mut writer = Writer::new(gone.clone(), Uuid::from_u128(1), 0, LIMITS);
    assert!(writer.intent(&row(1)).is_err());
    assert!(writer.finish(&row(1)).is_err());
    fs::create_dir(&gone).unwrap();
    writer.intent(&row(2)).unwrap();
    fs::write(gone.join("lock"), Uuid::from_u128(1).simple().to_string()).unwrap();
    assert_eq!(ids(&drain(&mut Reader::open(&gone).unwrap())), [row(1).id]);
}

proptest! {
    /// A spool that is cut off anywhere returns every row of which all bytes are left, and damage never makes up a row.
    #[test]
    fn any_cut_and_any_damage_is_survived(
        n in 1_u128..20,
        cut: prop::sample::Index,
        flip: prop::sample::Index,
        damage: bool,
        kind: prop::sample::Index,
        zeros: bool,
    ) {
        let mut spool = Spool::new();
        let mut writer = spool.writer(*kind.get(&KINDS));
        (0..n).for_each(|n| writer.finish(&row(n)).unwrap());
        let (log, mut bytes, behind) = spool.log();
        let size = (bytes.len() - HEAD) / n as usize;
        let keep = HEAD + cut.index(bytes.len() - HEAD + 1);
        bytes.truncate(keep);
        let mut want: Vec<_> = (0..((keep - HEAD) / size) as u128).map(|n| row(n).id).collect();
        if damage && bytes.len() > HEAD {
            let at = HEAD + flip.index(bytes.len() - HEAD);
            bytes[at] ^= 0x10;
            let hit = (at - HEAD) / size;
            if hit < want.len() { want.remove(hit); }
        }
        // A power loss may take the last blocks, and leave the length.
        bytes.resize(bytes.len() + if zeros { behind } else { 0 }, 0);
        fs::write(&log, &bytes).unwrap();
        spool.boot(2);
        let rows = drain(&mut Reader::open(spool.path()).unwrap());
        prop_assert_eq!(ids(&rows), want);
    }
}
