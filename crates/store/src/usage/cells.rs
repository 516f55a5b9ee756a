//! Cells. A cell holds the requests of one span of time that have the same values in everything that can be filtered or
//! grouped by. This file adds rows up to cells and packs cells into the two columns of a roll-up.
//!
//! `sums` holds: a version byte; the model names; the keys (id and prefix); the cells, each with its indexes into these
//! lists, its ids, status, task and outcome, and its sums. `times` holds for each cell, in the same order, the packed
//! histograms of latency and time to first token, each with its length in front. Numbers are varints. Cells are sorted,
//! so that the same rows give the same bytes.

use std::collections::{BTreeMap, BTreeSet};

use gantry_domain::{
    endpoint::Endpoint,
    model::Task,
    usage::{FIRST_ERROR_STATUS, Outcome, UsageRow, histogram::Histogram, time_of, varint},
};

use crate::page::clean;

/// First byte of `sums`.
const VERSION: u8 = 3;
/// Version before rows could stand for several requests. In it the number of rows is the number of requests.
const WITHOUT_ROWS: u8 = 2;
/// Version that also has no free tokens: in sums that old, budgets count all tokens.
const WITHOUT_FREE: u8 = 1;
/// Number of packed sums of a cell. [`WITHOUT_ROWS`] lacks the last one, [`WITHOUT_FREE`] the last two.
const N_FIELDS: usize = 10;
/// Tasks by packed number. A packed outcome is likewise its index in [`Outcome::ALL`]. New ones go to the end.
const TASKS: [Task; 2] = [Task::Generate, Task::Embed];

/// Totals of requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageSums {
    pub requests: i64,
    /// Requests with a status from [`FIRST_ERROR_STATUS`] on.
    pub errors: i64,
    pub prompt_tokens: i64,
    pub completion_tokens: i64,
    pub cached_tokens: i64,
    /// Prompt and completion tokens that were only counted (see [`Endpoint::runs_model`]). They don't count against
    /// budgets.
    pub free_tokens: i64,
    /// Requests whose tokens the gateway counted itself.
    pub estimated: i64,
    /// Milliseconds.
    pub latency_ms: i64,
    /// Requests with a time to first token.
    pub streamed: i64,
    /// Sum of the times to first token of the streamed requests, in milliseconds.
    pub ttft_ms: i64,
    /// Number of raw rows of the requests. It is less than `requests` if some were refused alike and share a row.
    pub rows: i64,
}

/// What one row adds to the sums. It stands for `requests` requests, which all have its status; the times in
/// milliseconds are their mean.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowCounts {
    pub(super) requests: i64,
    pub(super) prompt_tokens: i64,
    pub(super) completion_tokens: i64,
    pub(super) cached_tokens: Option<i64>,
    pub(super) endpoint: Endpoint,
    pub(super) status: u16,
    pub(super) estimated: bool,
    pub(super) latency: i64,
    pub(super) ttft: Option<i64>,
}

impl From<RowCounts> for UsageSums {
    fn from(row: RowCounts) -> Self {
        let of_all = |it: bool| if it { row.requests } else { 0 };
        let sums = Self {
            requests: row.requests,
            rows: 1,
            prompt_tokens: row.prompt_tokens,
            completion_tokens: row.completion_tokens,
            cached_tokens: row.cached_tokens.unwrap_or(0),
            errors: of_all(row.status >= FIRST_ERROR_STATUS),
            estimated: of_all(row.estimated),
            latency_ms: row.latency.saturating_mul(row.requests),
            streamed: of_all(row.ttft.is_some()),
            ttft_ms: row.ttft.unwrap_or(0).saturating_mul(row.requests),
            free_tokens: 0,
        };
        let free_tokens = if row.endpoint.runs_model() { 0 } else { sums.total_tokens() };
        Self { free_tokens, ..sums }
    }
}

impl UsageSums {
    /// Returns the tokens of prompts and completions together.
    pub fn total_tokens(&self) -> i64 {
        self.prompt_tokens.saturating_add(self.completion_tokens)
    }

    /// Adds another sum. A sum that is too large for `i64` stays at the largest value: a client must not be able to
    /// make sums fail.
    pub fn add(&mut self, other: &Self) {
        for (mine, more) in self.fields_mut().into_iter().zip(other.fields()) {
            *mine = mine.saturating_add(more);
        }
        self.errors = self.errors.saturating_add(other.errors);
    }

    /// Returns the sums that are packed: all but the errors, which follow from the status of the cell.
    fn fields(&self) -> [i64; N_FIELDS] {
        [
            self.requests,
            self.prompt_tokens,
            self.completion_tokens,
            self.cached_tokens,
            self.estimated,
            self.latency_ms,
            self.streamed,
            self.ttft_ms,
            self.free_tokens,
            self.rows,
        ]
    }

    fn fields_mut(&mut self) -> [&mut i64; N_FIELDS] {
        [
            &mut self.requests,
            &mut self.prompt_tokens,
            &mut self.completion_tokens,
            &mut self.cached_tokens,
            &mut self.estimated,
            &mut self.latency_ms,
            &mut self.streamed,
            &mut self.ttft_ms,
            &mut self.free_tokens,
            &mut self.rows,
        ]
    }
}

/// The values that all requests of a cell share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Dims<'a> {
    pub(super) model: &'a str,
    pub(super) key: Option<(i64, &'a str)>,
    pub(super) user_id: Option<i64>,
    pub(super) org_id: Option<i64>,
    pub(super) status: u16,
    pub(super) task: Task,
    pub(super) outcome: Outcome,
}

/// [`Dims`] with owned texts, in the same sort order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct OwnDims {
    model: String,
    key: Option<(i64, String)>,
    user_id: Option<i64>,
    org_id: Option<i64>,
    status: u16,
    task: Task,
    outcome: Outcome,
}

impl From<Dims<'_>> for OwnDims {
    fn from(dims: Dims<'_>) -> Self {
        let Dims { model, key, user_id, org_id, status, task, outcome } = dims;
        let key = key.map(|(id, prefix)| (id, prefix.to_owned()));
        Self { model: model.to_owned(), key, user_id, org_id, status, task, outcome }
    }
}

/// Histograms of a cell, in the form in which they are available.
#[derive(Debug, Clone, Copy)]
pub(super) enum Times<'a> {
    /// The caller did not ask for times.
    None,
    /// The times of one row.
    One {
        latency: i64,
        ttft: Option<i64>,
        requests: i64,
    },
    Packed {
        latency: &'a [u8],
        ttft: &'a [u8],
    },
}

impl Times<'_> {
    /// Adds the latencies to `histogram`; `None` if the packed ones are damaged.
    pub(super) fn latency(self, histogram: &mut Histogram) -> Option<()> {
        match self {
            Self::None => {}
            Self::One { latency, requests, .. } => histogram.record_n(latency, requests.unsigned_abs()),
            Self::Packed { latency, .. } => histogram.merge_packed(latency)?,
        }
        Some(())
    }

    /// Adds the times to first token to `histogram`; `None` if the packed ones are damaged.
    pub(super) fn ttft(self, histogram: &mut Histogram) -> Option<()> {
        match self {
            Self::None | Self::One { ttft: None, .. } => {}
            Self::One { ttft: Some(ttft), requests, .. } => histogram.record_n(ttft, requests.unsigned_abs()),
            Self::Packed { ttft, .. } => histogram.merge_packed(ttft)?,
        }
        Some(())
    }
}

/// A cell that was read from a packed span or made from a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct CellRef<'a> {
    pub(super) dims: Dims<'a>,
    pub(super) sums: UsageSums,
    /// Time of its first and last request, in milliseconds from the start of the span.
    pub(super) window: (i64, i64),
    pub(super) times: Times<'a>,
}

impl CellRef<'_> {
    /// Returns the cell of one row of the span that begins at `start`.
    fn of(row: &UsageRow, start: i64) -> CellRef<'_> {
        let at = time_of(row.id).0.saturating_sub(start);
        CellRef {
            dims: Dims {
                model: &row.model_name,
                key: row.key_id.map(|id| (id.0, row.key_prefix.as_deref().unwrap_or_default())),
                user_id: row.user_id.map(|it| it.0),
                org_id: row.org_id.map(|it| it.0),
                status: row.status_code,
                task: row.task,
                outcome: row.outcome,
            },
            sums: UsageSums::from(RowCounts {
                requests: row.requests,
                prompt_tokens: row.prompt_tokens,
                completion_tokens: row.completion_tokens,
                cached_tokens: row.cached_tokens,
                endpoint: row.endpoint,
                status: row.status_code,
                estimated: row.estimated,
                latency: row.latency_ms,
                ttft: row.ttft_ms,
            }),
            window: (at, at),
            times: Times::One { latency: row.latency_ms, ttft: row.ttft_ms, requests: row.requests },
        }
    }
}

#[derive(Debug, Default)]
struct Cell {
    sums: UsageSums,
    window: (i64, i64),
    latency: Histogram,
    ttft: Histogram,
}

/// The two columns of a roll-up, and the number of requests in it.
#[derive(Debug)]
pub(super) struct Packed {
    pub(super) requests: i64,
    pub(super) sums: Vec<u8>,
    pub(super) times: Vec<u8>,
}

/// Cells of one span that is being added up.
#[derive(Debug, Default)]
pub(super) struct Cells(BTreeMap<OwnDims, Cell>);

impl Cells {
    /// Adds a row to the span that begins at `start`.
    pub(super) fn record(&mut self, row: &UsageRow, start: i64) {
        let mut cell = CellRef::of(row, start);
        // The name is cleaned as in the stored row.
        let model = clean(&row.model_name);
        cell.dims.model = &model;
        let _ = self.add(&cell, 0);
    }

    /// Adds a packed span that begins `shift` milliseconds after this one; `None` if it is damaged.
    pub(super) fn merge(&mut self, sums: &[u8], times: &[u8], shift: i64) -> Option<()> {
        let mut whole = Some(());
        each(sums, Some(times), |cell| whole = whole.and(self.add(&cell, shift)))?;
        whole
    }

    /// Adds a packed span with the same start, with the names that are not `known` taken out.
    pub(super) fn fold(&mut self, sums: &[u8], times: &[u8], known: &BTreeSet<String>) -> Option<()> {
        let mut whole = Some(());
        each(sums, Some(times), |mut cell| {
            if !known.contains(cell.dims.model) {
                cell.dims.model = "";
            }
            whole = whole.and(self.add(&cell, 0));
        })?;
        whole
    }

    fn add(&mut self, cell: &CellRef<'_>, shift: i64) -> Option<()> {
        let (first, last) = (cell.window.0.saturating_add(shift), cell.window.1.saturating_add(shift));
        let empty = || Cell { window: (first, last), ..Cell::default() };
        let mine = self.0.entry(cell.dims.into()).or_insert_with(empty);
        mine.sums.add(&cell.sums);
        mine.window = (mine.window.0.min(first), mine.window.1.max(last));
        cell.times.latency(&mut mine.latency)?;
        cell.times.ttft(&mut mine.ttft)
    }

    pub(super) fn pack(&self) -> Packed {
        let mut packed = Packed { requests: 0, sums: vec![VERSION], times: Vec::new() };
        let (mut models, mut keys) = (BTreeMap::new(), BTreeMap::new());
        for dims in self.0.keys() {
            models.insert(dims.model.as_str(), 0);
            keys.extend(dims.key.as_ref().map(|it| (it, 0)));
        }
        let text = |out: &mut Vec<u8>, text: &str| {
            varint::put(out, text.len() as u64);
            out.extend_from_slice(text.as_bytes());
        };
        varint::put(&mut packed.sums, models.len() as u64);
        for (place, (name, at)) in models.iter_mut().enumerate() {
            text(&mut packed.sums, name);
            *at = place as u64;
        }
        varint::put(&mut packed.sums, keys.len() as u64);
        for (place, ((id, prefix), at)) in keys.iter_mut().enumerate() {
            varint::put_signed(&mut packed.sums, *id);
            text(&mut packed.sums, prefix);
            *at = place as u64 + 1;
        }
        varint::put(&mut packed.sums, self.0.len() as u64);
        let mut scratch = Vec::new();
        for (dims, cell) in &self.0 {
            let out = &mut packed.sums;
            varint::put(out, models.get(dims.model.as_str()).copied().unwrap_or(0));
            varint::put(out, dims.key.as_ref().and_then(|it| keys.get(it)).copied().unwrap_or(0));
            for id in [dims.user_id, dims.org_id] {
                // Ids begin with 1, so 0 stands for no id.
                varint::put_signed(out, id.unwrap_or(0));
            }
            varint::put(out, dims.status.into());
            out.push(dims.task as u8 | (dims.outcome as u8) << 4);
            for sum in cell.sums.fields() {
                varint::put_signed(out, sum);
            }
            varint::put_signed(out, cell.window.0);
            varint::put_signed(out, cell.window.1 - cell.window.0);
            for histogram in [&cell.latency, &cell.ttft] {
                scratch.clear();
                histogram.pack(&mut scratch);
                varint::put(&mut packed.times, scratch.len() as u64);
                packed.times.extend_from_slice(&scratch);
            }
            packed.requests += cell.sums.requests;
        }
        packed
    }
}

/// Calls `visit` for every cell of a packed span; without `times` they have no histograms. Returns `None` if the span
/// is damaged or of a newer version.
pub(super) fn each<'a>(
    mut sums: &'a [u8],
    times: Option<&'a [u8]>,
    mut visit: impl FnMut(CellRef<'a>),
) -> Option<()> {
    let rest = &mut sums;
    let n_fields = match varint::take_bytes(rest, 1)? {
        [VERSION] => N_FIELDS,
        [WITHOUT_ROWS] => N_FIELDS - 1,
        [WITHOUT_FREE] => N_FIELDS - 2,
        _ => return None,
    };
    let count = |rest: &mut &'a [u8]| usize::try_from(varint::take(rest)?).ok().filter(|n| *n <= rest.len());
    let text = |rest: &mut &'a [u8]| {
        let len = usize::try_from(varint::take(rest)?).ok()?;
        std::str::from_utf8(varint::take_bytes(rest, len)?).ok()
    };
    let models: Vec<&str> = (0..count(rest)?).map(|_| text(rest)).collect::<Option<_>>()?;
    let keys: Vec<(i64, &str)> =
        (0..count(rest)?).map(|_| Some((varint::take_signed(rest)?, text(rest)?))).collect::<Option<_>>()?;
    let mut times = times;
    for _ in 0..count(rest)? {
        let model = models.get(usize::try_from(varint::take(rest)?).ok()?)?;
        let key = match usize::try_from(varint::take(rest)?).ok()? {
            0 => None,
            place => Some(*keys.get(place - 1)?),
        };
        let user_id = Some(varint::take_signed(rest)?).filter(|it| *it != 0);
        let org_id = Some(varint::take_signed(rest)?).filter(|it| *it != 0);
        let status = u16::try_from(varint::take(rest)?).ok()?;
        let [kinds] = varint::take_bytes(rest, 1)? else { return None };
        let mut sums = UsageSums::default();
        for sum in sums.fields_mut().into_iter().take(n_fields) {
            *sum = varint::take_signed(rest)?;
        }
        if status >= FIRST_ERROR_STATUS {
            sums.errors = sums.requests;
        }
        if n_fields < N_FIELDS {
            sums.rows = sums.requests;
        }
        let first = varint::take_signed(rest)?;
        let last = first.saturating_add(varint::take_signed(rest)?);
        let times = match &mut times {
            None => Times::None,
            Some(rest) => {
                let mut next = || {
                    let len = usize::try_from(varint::take(rest)?).ok()?;
                    varint::take_bytes(rest, len)
                };
                Times::Packed { latency: next()?, ttft: next()? }
            }
        };
        let task = *TASKS.get(usize::from(kinds & 0xf))?;
        let outcome = *Outcome::ALL.get(usize::from(kinds >> 4))?;
        let dims = Dims { model, key, user_id, org_id, status, task, outcome };
        visit(CellRef { dims, sums, window: (first, last), times });
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use gantry_domain::{KeyId, OrgId, Timestamp, usage::id_at};

    use super::*;

    fn row(at: i64, number: i64) -> UsageRow {
        UsageRow {
            id: id_at(Timestamp(at), number as u128),
            req_id: String::new(),
            created_at: Timestamp(at),
            key_id: (number % 3 > 0).then_some(KeyId(number % 3)),
            key_prefix: (number % 3 > 0).then(|| format!("gty_{}", number % 3)),
            user_id: None,
            org_id: Some(OrgId(1 << (number % 40))),
            model_name: ["qwen", "", "a\0b"][number as usize % 3].to_owned(),
            task: [Task::Generate, Task::Embed][number as usize % 2],
            endpoint: Endpoint::ChatCompletions,
            stream: false,
            prompt_tokens: number,
            completion_tokens: -number,
            cached_tokens: Some(i64::MAX),
            estimated: false,
            latency_ms: number * number,
            ttft_ms: (number % 2 == 0).then_some(number),
            status_code: [200, 404][number as usize % 2],
            outcome: Outcome::ALL[number as usize % 6],
            requests: 1,
        }
    }

    fn packed(rows: impl Iterator<Item = i64>) -> Packed {
        let mut cells = Cells::default();
        rows.for_each(|n| cells.record(&row(1_000 + n, n), 1_000));
        cells.pack()
    }

    #[test]
    fn parts_add_up_to_the_same_bytes() {
        let whole = packed(0..300);
        let mut merged = Cells::default();
        for part in [packed((0..300).step_by(2)), packed((1..300).step_by(2))] {
            merged.merge(&part.sums, &part.times, 0).unwrap();
        }
        let merged = merged.pack();
        assert_eq!((&merged.sums, &merged.times, merged.requests), (&whole.sums, &whole.times, 300));
    }

    #[test]
    fn a_cell_says_what_was_put_in() {
        let packed = packed([5, 5 + 120].into_iter());
        let mut seen = Vec::new();
        each(&packed.sums, Some(&packed.times), |cell| seen.push(cell)).unwrap();
        let [cell] = seen[..] else { panic!("{seen:?}") };
        let dims = Dims {
            model: "a\u{fffd}b",
            key: Some((2, "gty_2")),
            user_id: None,
            org_id: Some(1 << 5),
            status: 404,
            task: Task::Embed,
            outcome: Outcome::Rejected,
        };
        assert_eq!((cell.dims, cell.window), (dims, (5, 125)));
        // A sum that is too large for `i64` stays at the largest value.
        let sums = UsageSums {
            requests: 2,
            rows: 2,
            errors: 2,
            prompt_tokens: 130,
            completion_tokens: -130,
            cached_tokens: i64::MAX,
            latency_ms: 25 + 125 * 125,
            ..UsageSums::default()
        };
        assert_eq!(cell.sums, sums);
    }

    #[test]
    fn sums_of_an_older_program_are_read() {
        // `packed([5, 125])` as it was before there were free tokens.
        let sums = [
            1, 1, 5, 97, 239, 191, 189, 98, 1, 4, 5, 103, 116, 121, 95, 50, 1, 0, 1, 0, 64, 148, 3, 81, 4,
            132, 2, 131, 2, 254, 255, 255, 255, 255, 255, 255, 255, 255, 1, 0, 196, 244, 1, 0, 0, 10, 240, 1,
        ];
        let mut merged = Cells::default();
        merged.merge(&sums, &[6, 2, 25, 1, 161, 4, 1, 1, 0], 0).unwrap();
        let (merged, now) = (merged.pack(), packed([5, 5 + 120].into_iter()));
        assert_eq!((merged.sums, merged.times), (now.sums, now.times));
    }

    #[test]
    fn damaged_bytes_never_panic() {
        let whole = packed(0..20);
        for len in 0..whole.sums.len() {
            assert!(each(&whole.sums[..len], None, |_| ()).is_none(), "{len}");
        }
        for at in 0..whole.sums.len() {
            for flip in [1, 0x80, 0xff] {
                let mut sums = whole.sums.clone();
                sums[at] ^= flip;
                let _ = Cells::default().merge(&sums, &whole.times, 7);
            }
        }
        assert!(Cells::default().merge(&whole.sums, &whole.times[..9], 0).is_none());
    }
}
