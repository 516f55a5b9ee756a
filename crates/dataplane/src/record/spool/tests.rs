//! Checks what must hold after any crash: no row is lost, and no committed row comes twice.

use std::{fs, io::Write, path::Path, time::Duration};

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

const LIMITS: SegmentLimits = SegmentLimits { bytes: 16 << 20, age: Duration::from_mins(1) };

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
    let mut spool = Spool::new();
    let mut writer = spool.writer(LIMITS);
    writer.finish(&row(1)).unwrap();
    let log = spool.logs()[0].clone();
    let whole = fs::read(&log).unwrap();
    fs::OpenOptions::new().append(true).open(&log).unwrap().write_all(&whole[8..40]).unwrap();
    let mut reader = Reader::open(spool.path()).unwrap();
    assert_eq!(ids(&drain(&mut reader)), [row(1).id]);
    // It could still be completed.
    assert_eq!(reader.torn(), 0);
    spool.boot(2);
    let mut reader = Reader::open(spool.path()).unwrap();
    assert_eq!(drain(&mut reader), []);
    assert_eq!((reader.torn(), spool.logs().len()), (1, 0));
}

#[test]
fn two_gateways_can_not_share_a_spool() {
    let spool = Spool::new();
    let error = Lock::take(spool.path(), Uuid::from_u128(9)).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
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
    fn any_cut_and_any_damage_is_survived(n in 1_u128..20, cut: prop::sample::Index, flip: prop::sample::Index, damage: bool) {
        let mut spool = Spool::new();
        let mut writer = spool.writer(LIMITS);
        (0..n).for_each(|n| writer.finish(&row(n)).unwrap());
        let log = spool.logs()[0].clone();
        let mut bytes = fs::read(&log).unwrap();
        let size = (bytes.len() - 8) / n as usize;
        let keep = 8 + cut.index(bytes.len() - 7);
        bytes.truncate(keep);
        let mut want: Vec<_> = (0..((keep - 8) / size) as u128).map(|n| row(n).id).collect();
        if damage && bytes.len() > 8 {
            let at = 8 + flip.index(bytes.len() - 8);
            bytes[at] ^= 0x10;
            let hit = (at - 8) / size;
            if hit < want.len() { want.remove(hit); }
        }
        fs::write(&log, &bytes).unwrap();
        spool.boot(2);
        let rows = drain(&mut Reader::open(spool.path()).unwrap());
        prop_assert_eq!(ids(&rows), want);
    }
}
