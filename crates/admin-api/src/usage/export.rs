//! `/admin/usage/export`: the rows of a filter as CSV (RFC 4180, with `\n`), newest first, any number of them.
//!
//! Rows are read page by page, each from where the one before ended: memory stays flat, and a client that reads slowly
//! holds no database connection.

use std::io::{self, Write as _};

use axum::{
    body::Body,
    extract::State,
    http::header::{CONTENT_DISPOSITION, CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use gantry_domain::{
    Timestamp, UserId,
    schema::{self, Components, Members},
};
use gantry_store::{StoreResult, UsageFilter, UsageRef};
use tracing::{error, warn};
use uuid::Uuid;

use super::{READ_ERRORS, UsageView, filter::Filter};
use crate::{
    App,
    caller::{Caller, Grant},
    error::Outcome,
    operation::{Doc, Operation, Output, Query},
};

/// Rows of one page: about a megabyte.
const PAGE: i64 = 4096;
/// Room for one line, in bytes: more than most lines need.
const LINE_BYTES: usize = 320;

/// A file with comma-separated values.
pub(crate) struct Csv(Body);

impl IntoResponse for Csv {
    fn into_response(self) -> Response {
        let headers = [
            (CONTENT_TYPE, "text/csv; charset=utf-8"),
            (CONTENT_DISPOSITION, "attachment; filename=\"usage.csv\""),
        ];
        (headers, self.0).into_response()
    }
}

impl Output for Csv {
    fn describe(doc: &mut Doc) {
        doc.answered_with("text/csv", "A header, and one line for each row.", schema::text());
    }
}

/// The fields of a row of the list, in the same order.
fn header() -> String {
    let mut fields = Vec::new();
    UsageView::members(&mut Components::new(), &mut fields);
    let names: Vec<&str> = fields.iter().map(|it| it.name).collect();
    format!("{}\n", names.join(","))
}

pub(crate) const EXPORT: Operation = Operation::new("exportUsage", "Rows as CSV")
    .about(
        "All rows that match, the newest first. Absent values are empty. A text that a spreadsheet would take for a \
         formula has a `'` in front.",
    )
    .errors(READ_ERRORS);

pub(crate) async fn export(app: State<App>, caller: Caller, Query(filter): Query<Filter>) -> Outcome<Csv> {
    let filter = filter.managed_by(&caller, app.clock.now())?.filter;
    let user = caller.user.id;
    let grant = caller.grant;
    let mut pages = Pages { app: app.0, user, grant, filter, before: None, lines: Lines::default() };
    // If the first page fails, the answer is an error in the common shape.
    let first = {
        let _place = pages.app.bounds.long_reads.begin(pages.user).await?;
        pages.next().await?
    };
    let head = stream::iter([Some(header().into()), first].into_iter().flatten().map(Ok));
    let rest = stream::unfold(pages, |mut pages| async move {
        pages.before?;
        if !pages.grant.holds(&pages.app).await {
            warn!("an export was cut off: its session or token ended");
            pages.before = None;
            return Some((Err(io::ErrorKind::PermissionDenied.into()), pages));
        }
        // A place is taken for each page and freed after it, so that a slow download blocks nobody.
        let Ok(_place) = pages.app.bounds.long_reads.begin(pages.user).await else {
            warn!("an export was cut off: too many reads of the same user wait");
            pages.before = None;
            return Some((Err(io::ErrorKind::ResourceBusy.into()), pages));
        };
        let page = pages.next().await.inspect_err(|error| {
            error!(error = error as &dyn std::error::Error, "an export was cut off");
            pages.before = None;
        });
        Some((page.map_err(io::Error::other).transpose()?, pages))
    });
    Ok(Csv(Body::from_stream(head.chain(rest))))
}

/// Where an export is.
struct Pages {
    app: App,
    user: UserId,
    /// The export stops when this grant ends.
    grant: Grant,
    filter: UsageFilter,
    /// The last row that was read; `None` before the first page and after the last one.
    before: Option<Uuid>,
    lines: Lines,
}

impl Pages {
    async fn next(&mut self) -> StoreResult<Option<Bytes>> {
        let mut out = Vec::with_capacity(PAGE as usize * LINE_BYTES);
        let mut tx = self.app.store.read().await?;
        let lines = &mut self.lines;
        self.before =
            tx.usage_before(&self.filter, self.before, PAGE, |row| lines.write(&mut out, row)).await?;
        Ok(self.before.map(|_| out.into()))
    }
}

/// Writes rows as lines.
#[derive(Debug, Default)]
struct Lines {
    /// The second of the last row, and its RFC 3339 form without the fraction: neighbours share it.
    second: Option<(i64, String)>,
}

impl Lines {
    fn write(&mut self, out: &mut Vec<u8>, row: &UsageRef<'_>) {
        let mut hyphenated = [0; 36];
        out.extend_from_slice(row.id.hyphenated().encode_lower(&mut hyphenated).as_bytes());
        text(out, row.req_id);
        self.time(out, row.created_at);
        optional(out, row.key_id);
        text(out, row.key_prefix.unwrap_or_default());
        optional(out, row.user_id);
        optional(out, row.org_id);
        text(out, row.model_name);
        text(out, row.task);
        text(out, row.endpoint);
        flag(out, row.stream);
        number(out, row.prompt_tokens);
        number(out, row.completion_tokens);
        number(out, row.prompt_tokens.saturating_add(row.completion_tokens));
        optional(out, row.cached_tokens);
        flag(out, row.estimated);
        number(out, row.latency_ms);
        optional(out, row.ttft_ms);
        number(out, row.status_code.into());
        text(out, row.outcome);
        number(out, row.requests);
        out.push(b'\n');
    }

    fn time(&mut self, out: &mut Vec<u8>, at: Timestamp) {
        let (second, ms) = (at.0.div_euclid(1000), at.0.rem_euclid(1000));
        if self.second.as_ref().is_none_or(|it| it.0 != second) {
            let mut shown = at.rfc3339();
            shown.truncate(shown.len().saturating_sub(".000Z".len()));
            self.second = Some((second, shown));
        }
        let shown = self.second.as_ref().map_or("", |it| it.1.as_str());
        let _ = write!(out, ",{shown}.{ms:03}Z");
    }
}

fn number(out: &mut Vec<u8>, value: i64) {
    // Writing to memory can't fail.
    let _ = write!(out, ",{value}");
}

fn optional(out: &mut Vec<u8>, value: Option<i64>) {
    match value {
        Some(value) => number(out, value),
        None => out.push(b','),
    }
}

fn flag(out: &mut Vec<u8>, value: bool) {
    out.extend_from_slice(if value { b",true" } else { b",false" });
}

/// Writes a text, quoted where the grammar wants it. Spreadsheets take a text that begins with one of `=+-@`, a tab or
/// a line break for a formula (OWASP, "CSV Injection"); names of models come from clients.
fn text(out: &mut Vec<u8>, text: &str) {
    out.push(b',');
    let bytes = text.as_bytes();
    let formula = matches!(bytes.first(), Some(b'=' | b'+' | b'-' | b'@' | b'\t' | b'\r' | b'\n'));
    let mark: &[u8] = if formula { b"'" } else { b"" };
    if !bytes.iter().any(|it| matches!(it, b',' | b'"' | b'\r' | b'\n')) {
        out.extend_from_slice(mark);
        out.extend_from_slice(bytes);
        return;
    }
    out.push(b'"');
    out.extend_from_slice(mark);
    for byte in bytes {
        if *byte == b'"' {
            out.push(b'"');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_and_never_formulas() {
        for (plain, written) in [
            ("qwen", ",qwen"),
            ("", ","),
            ("a,b", ",\"a,b\""),
            ("say \"x\"\n", ",\"say \"\"x\"\"\n\""),
            ("=1+1", ",'=1+1"),
            ("@SUM(A1,B2)", ",\"'@SUM(A1,B2)\""),
            ("-x", ",'-x"),
            ("\tx", ",'\tx"),
        ] {
            let mut out = Vec::new();
            text(&mut out, plain);
            assert_eq!(String::from_utf8(out).unwrap(), written);
        }
    }

    #[test]
    fn times_are_those_of_the_list() {
        let mut lines = Lines::default();
        for ms in [1_795_219_804_123, 1_795_219_804_007, 1_795_219_805_000, -1] {
            let mut out = Vec::new();
            lines.time(&mut out, Timestamp(ms));
            assert_eq!(String::from_utf8(out).unwrap(), format!(",{}", Timestamp(ms).rfc3339()));
        }
    }
}
