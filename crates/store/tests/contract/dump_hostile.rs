//! Dumps that must not be accepted, and those of every `pg_dump` that must.

use std::{fmt::Write as _, io::Read as _, path::Path};

use gantry_store::{DumpKind, DumpSecrets, check_dump};
use sqlx::migrate::Migrator;

use crate::{
    filled::{dump, evil, fill_small},
    harness::Database,
    hostile_dumps::{HOSTILE, own_with},
};

#[path = "../../../../fuzz/dump.rs"]
mod fuzz_target;

/// Returns a dump as `pg_dump --data-only` writes it, from one of ours. `top`: what a version writes above the data.
pub(crate) async fn as_pg_dump(text: &str, top: &str) -> String {
    let migrations = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations/postgres");
    let mut rows = String::new();
    for it in Migrator::new(migrations).await.unwrap().iter() {
        let checksum = gantry_domain::hex::hex(&it.checksum);
        writeln!(rows, "{}\tx\t2026-01-01 00:00:00.1+00\tt\t\\\\x{checksum}\t9", it.version).unwrap();
    }
    let (_, data) = text.split_once("\n\n").unwrap();
    let (data, _) = data.split_once("-- gantry-proof").unwrap();
    let columns = "version, description, installed_on, success, checksum, execution_time";
    format!(
        "{top}\nCOPY public._sqlx_migrations ({columns}) FROM stdin;\n{rows}\\.\n\n\n{data}\n\
         --\n-- PostgreSQL database dump complete\n--\n\n"
    )
}

pub(crate) const TOP: &str = "--\n-- PostgreSQL database dump\n--\n\n-- Dumped from database version 15.18\n\
                   -- Dumped by pg_dump version 15.18\n\nSET statement_timeout = 0;\nSET lock_timeout = 0;\n\
                   SET idle_in_transaction_session_timeout = 0;\nSET client_encoding = 'UTF8';\n\
                   SET standard_conforming_strings = on;\nSELECT pg_catalog.set_config('search_path', '', false);\n\
                   SET check_function_bodies = false;\nSET xmloption = content;\n\
                   SET client_min_messages = warning;\nSET row_security = off;\n";

async fn filled() -> String {
    let db = Database::sqlite().await;
    fill_small(&db.store).await;
    let (text, _) = dump(&db, DumpSecrets::Redacted).await;
    db.remove().await;
    String::from_utf8(text).unwrap()
}

#[tokio::test]
async fn hostile_statements_are_refused_with_their_line() {
    assert!(HOSTILE.len() >= 40);
    let own = filled().await;
    let foreign = as_pg_dump(&own, TOP).await;
    assert_eq!(check_dump(foreign.as_bytes()).problems, [""; 0]);
    for hostile in HOSTILE {
        for text in [&own, &foreign] {
            let (text, line) = own_with(text, hostile);
            let problems = check_dump(text.as_bytes()).problems;
            assert_eq!(problems.len(), 1, "{hostile}");
            let found = problems[0].strip_prefix("line ").and_then(|it| it.split_once(':')).unwrap().0;
            let found: usize = found.parse().unwrap();
            // An incomplete statement swallows what follows; one with data is refused at the data.
            let near = (line..=line + 1).contains(&found);
            assert!(near, "{hostile}: {} and not {line}", problems[0]);
        }
    }
    assert!(!Path::new("canary").exists());
}

#[tokio::test]
async fn rows_that_do_not_fit_are_refused_with_their_line() {
    let own = filled().await;
    let (before, _) = own.split_once("COPY public.registry ").unwrap();
    let columns = "served_name, task, api_key, created_at, urls, upstream_model";
    for (columns, row, why) in [
        (columns, "a\tgenerate\t\\N\t1\t[]\t\\N", "cut off"),
        (columns, "a\tgenerate\t\\N\t1\t[]", "6 values"),
        (columns, "a\tgenerate\t\\N\t1\t[]\t\\N\tx", "6 values"),
        (columns, "a\tgenerate\t\\N\t1.5\t[]\t\\N", "integer of 64 bits"),
        (columns, "a\tgenerate\t\\N\t\\N\t[]\t\\N", "must have a value"),
        (columns, "a\tgenerate\t\\N\t1\t[]\t\\q", "escaped"),
        (columns, "a\tgenerate\t\\N\t1\t[]\tx\r", "carriage return"),
        (columns, "a\tgenerate\t\\N\t1\t[]\tx\0", "NUL"),
        ("served_name, task, api_key, created_at, urls, evil", "", "no column `evil`"),
        ("served_name, task, api_key, created_at, urls, urls", "", "named once"),
        ("served_name, task", "", "6 columns"),
        ("served_name, task, (SELECT 1)", "", "a list of columns"),
    ] {
        let text = format!("{before}COPY public.registry ({columns}) FROM stdin;\n{row}\n");
        let line = before.lines().count() + if row.is_empty() { 1 } else { 2 };
        let problem = check_dump(text.as_bytes()).problems.remove(0);
        let line = if why == "cut off" { line + 1 } else { line };
        assert!(
            problem.starts_with(&format!("line {line}: ")) && problem.contains(why),
            "{why}: {problem} {line}"
        );
    }
    let text = [before.as_bytes(), b"\xff\xfe;"].concat();
    assert!(check_dump(&text[..]).problems[0].contains('`'), "no UTF-8");
}

#[tokio::test]
async fn what_is_too_long_is_refused_before_it_takes_memory() {
    let own = filled().await;
    let (before, after) = own.split_once("COPY public.registry ").unwrap();
    let (columns, _) = after.split_once('\n').unwrap();
    let start = format!("{before}COPY public.registry {columns}\n");
    let endless = || std::io::repeat(b'x').take(1 << 40);
    let problem = check_dump(start.as_bytes().chain(endless())).problems.remove(0);
    assert!(problem.contains("more than 64 MiB"), "{problem}");
    let problem = check_dump(before.as_bytes().chain(endless())).problems.remove(0);
    assert!(problem.contains("too long"), "{problem}");
    let problem = check_dump(before.as_bytes().chain(&b"SELECT '"[..]).chain(endless())).problems.remove(0);
    assert!(problem.contains("too long"), "{problem}");
    let problem = check_dump(before.as_bytes().chain(&b"--"[..]).chain(endless())).problems.remove(0);
    assert!(problem.contains("more than 64 MiB"), "{problem}");
}

#[tokio::test]
async fn a_dump_that_was_cut_off_is_never_accepted() {
    let own = filled().await;
    let foreign = as_pg_dump(&own, TOP).await;
    for text in [&own, &foreign] {
        let last = text.trim_end().len();
        for percent in 0..100 {
            let cut = &text.as_bytes()[..last * percent / 100];
            assert_eq!(check_dump(cut).problems.len(), 1, "{percent} %");
        }
        for line in text.match_indices('\n').map(|it| it.0).filter(|it| *it < last).step_by(7) {
            assert_eq!(check_dump(&text.as_bytes()[..=line]).problems.len(), 1, "{line}");
        }
    }
    assert_eq!(
        check_dump(&own.as_bytes()[..own.trim_end().len()]).problems.len(),
        1,
        "without its last line end"
    );
}

#[tokio::test]
async fn a_flipped_bit_is_never_accepted_as_other_content() {
    let own = filled().await.into_bytes();
    let proof = check_dump(&own[..]).proof.unwrap();
    let mut state = 7_u64;
    let (mut same, mut refused) = (0, 0);
    for _ in 0..300 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let bit = (state >> 11) as usize % (own.len() * 8);
        let mut text = own.clone();
        text[bit / 8] ^= 1 << (bit % 8);
        let report = check_dump(&text[..]);
        match report.proof {
            Some(read) => {
                same += 1;
                assert_eq!(read.differences(&proof), [""; 0], "bit {bit}");
            }
            None => refused += 1,
        }
    }
    assert!(refused > 250, "{same} {refused}");
}

#[tokio::test]
async fn the_tops_of_every_pg_dump_are_accepted() {
    let own = filled().await;
    let v13 = TOP.replace("15.18", "13.22");
    let v14 = TOP.replace("15.18", "14.19");
    let restrict = "--\n-- PostgreSQL database dump\n--\n\n\\restrict gQ7xY3eXAmPLe0123456789abcdefABCDEF\n";
    let v16 = TOP.replace("--\n-- PostgreSQL database dump\n--\n", restrict).replace("15.18", "16.10");
    let v17 = v16
        .replace("16.10", "17.6")
        .replace("SET client_encoding", "SET transaction_timeout = 0;\nSET client_encoding");
    let v18 = v17.replace("17.6", "18.1");
    let tables = "SET default_tablespace = '';\n\nSET default_table_access_method = heap;\n\n";
    for (top, has_end) in [(v13, false), (v14, false), (v16, true), (v17, true), (v18, true)] {
        let mut text = as_pg_dump(&own, &(top + tables)).await;
        if has_end {
            text += "\\unrestrict gQ7xY3eXAmPLe0123456789abcdefABCDEF\n\n";
        }
        let report = check_dump(text.as_bytes());
        assert_eq!((report.problems, report.kind), (vec![], DumpKind::PgDump), "{text:.200}");
        assert_eq!(report.tables["usage"], 40);
    }
}

/// What `pg_dump` 18 writes of two tables; its NOT NULL constraints have names if they were given one.
const CREATED: &str = r#"
CREATE TABLE public.meta (
    key text NOT NULL,
    value text CONSTRAINT meta_value_not_null NOT NULL
);


ALTER TABLE public.meta OWNER TO "Ün-owner";

CREATE TABLE public.models (
    id bigint NOT NULL,
    task text NOT NULL,
    CONSTRAINT models_task_check CHECK ((task = ANY (ARRAY['generate'::text, 'embed'::text]))),
    CONSTRAINT models_named NOT NULL task
)
WITH (fillfactor='70');
ALTER TABLE ONLY public.models ALTER COLUMN task SET STORAGE EXTERNAL;
ALTER TABLE public.models ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.models_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE SEQUENCE public.models_id_seq START WITH 1;
ALTER SEQUENCE public.models_id_seq OWNER TO x;
COMMENT ON SCHEMA public IS 'standard; public schema';
ALTER SCHEMA public OWNER TO x;
ALTER TABLE ONLY public.meta
    ADD CONSTRAINT meta_pkey PRIMARY KEY (key);
CREATE UNIQUE INDEX models_served_name ON public.models USING btree (served_name) WHERE ((NOT archived) AND (NOT deleting));
"#;

#[test]
fn what_pg_dump_writes_around_data_is_recognised() {
    // It ends without data, so the complaint is about the version, at the last line.
    let text = format!("{TOP}{CREATED}--\n-- PostgreSQL database dump complete\n--\n");
    let problem = check_dump(text.as_bytes()).problems.remove(0);
    assert!(problem.contains("which say what version they have"), "{problem}");
    assert!(problem.starts_with(&format!("line {}:", text.lines().count() + 1)), "{problem}");
}

#[test]
fn the_fuzzed_seeds_and_findings_are_read_without_a_fault() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/dump");
    let mut accepted = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let data = std::fs::read(entry.unwrap().path()).unwrap();
        fuzz_target::dump(&data);
        accepted += usize::from(check_dump(&data[..]).problems.is_empty());
    }
    assert!(accepted >= 2, "a dump of ours and one of pg_dump are among the seeds");
}

#[test]
fn hostile_texts_differ() {
    let texts: std::collections::BTreeSet<String> = (0..1000).map(evil).collect();
    assert!(texts.len() > 900);
}
