//! What a dump or a database holds, counted row by row in any order, so that two of them can be compared value by value.

use std::collections::BTreeMap;

use gantry_domain::{
    Timestamp,
    audit::{ActorType, AuditRow, GENESIS, Link, ObjectType},
    hex::hex,
};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize, de::IgnoredAny};

use crate::dump::{
    row::{Row, Value},
    schema::{Schema, Table},
};

/// Counts and sums of a database. Two proofs are equal if and only if the rows are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proof {
    /// Number of rows by table.
    pub rows: BTreeMap<String, u64>,
    /// By table: the sum, modulo 2^128, of the first 16 bytes of each row's SHA-256, in hexadecimal. It depends neither
    /// on the order of the rows nor on the kind of database.
    pub digests: BTreeMap<String, String>,
    /// The number last given to a row, by table. Tables that count, and have counted, only.
    pub sequences: BTreeMap<String, i64>,
    /// Sums over the raw usage rows.
    pub usage: UsageProof,
    /// Requests in the roll-ups, by the hours that a roll-up spans (1 and 24).
    pub rollups: BTreeMap<i64, i64>,
    /// The audit log.
    pub audit: AuditProof,
    /// Number of owners that may sign in.
    pub enabled_owners: u64,
    /// Number of secrets that the writer of the dump left out, by table.
    pub redacted: BTreeMap<String, u64>,
}

/// Sums over raw usage rows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UsageProof {
    pub requests: i64,
    pub prompt_tokens: i64,
    pub completion_tokens: i64,
}

/// The audit log of a dump or a database.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditProof {
    pub rows: u64,
    /// Number of the row that was written last; 0 if none was.
    pub head: i64,
    /// Its hash in hexadecimal.
    pub head_hash: String,
    /// Whether every row follows from the one before, up to the head.
    pub verifies: bool,
}

impl Proof {
    /// Returns what differs, in words: empty if both stand for the same content. `redacted` is not content.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut found = self.summary_differences(other);
        for (table, digest) in &self.digests {
            if other.rows.get(table) == self.rows.get(table) && other.digests.get(table) != Some(digest) {
                found.push(format!("rows of `{table}` have other values"));
            }
        }
        if self.sequences != other.sequences {
            found.push("the numbers that were given to rows last are others".to_owned());
        }
        found
    }

    /// Returns what differs in the facts that a migration leaves as they are: the numbers of rows in tables that both
    /// have, the sums, the audit log and the owners.
    pub fn summary_differences(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        let mut compare = |what: &str, mine: &dyn ToString, others: &dyn ToString| {
            let (mine, others) = (mine.to_string(), others.to_string());
            if mine != others {
                found.push(format!("{what}: {mine} and {others}"));
            }
        };
        for (table, rows) in &self.rows {
            if let Some(others) = other.rows.get(table) {
                compare(&format!("rows of `{table}`"), rows, others);
            }
        }
        compare("requests in `usage`", &self.usage.requests, &other.usage.requests);
        compare("prompt tokens in `usage`", &self.usage.prompt_tokens, &other.usage.prompt_tokens);
        compare(
            "completion tokens in `usage`",
            &self.usage.completion_tokens,
            &other.usage.completion_tokens,
        );
        for hours in [1, 24] {
            let of = |proof: &Self| proof.rollups.get(&hours).copied().unwrap_or(0);
            compare(&format!("requests in roll-ups of {hours} h"), &of(self), &of(other));
        }
        compare("rows of the audit log", &self.audit.rows, &other.audit.rows);
        compare("last row of the audit log", &self.audit.head, &other.audit.head);
        compare("hash of the audit log", &self.audit.head_hash, &other.audit.head_hash);
        compare("owners that may sign in", &self.enabled_owners, &other.enabled_owners);
        found
    }
}

/// What is known of a table, and what is counted in it.
#[derive(Debug, Clone)]
struct TableTally {
    rows: u64,
    digest: u128,
    /// Index of the key, if the table counts.
    counts: Option<usize>,
    /// The highest number that was given, by the sequence or by a row.
    last: i64,
    role: Role,
    /// Indexes of the columns that hold JSON.
    json: Vec<usize>,
    /// Number of rows in which one of them does not.
    unreadable: u64,
}

/// What a table's rows add to apart from their number and digest, with the indexes of the columns.
#[derive(Debug, Clone, Copy)]
enum Role {
    None,
    Usage { requests: Option<usize>, prompt: usize, completion: usize },
    Rollups { hours: usize, requests: usize },
    Users { role: usize, enabled: usize, hash: usize },
    Audit,
    AuditChain { name: usize, seq: usize, hash: usize },
}

impl Role {
    fn of(table: &Table) -> Option<Self> {
        let column = |name| table.column(name);
        Some(match table.name.as_str() {
            "usage" => Self::Usage {
                requests: column("requests"),
                prompt: column("prompt_tokens")?,
                completion: column("completion_tokens")?,
            },
            "usage_rollups" => Self::Rollups { hours: column("hours")?, requests: column("requests")? },
            "users" => Self::Users {
                role: column("role")?,
                enabled: column("enabled")?,
                hash: column("password_hash")?,
            },
            "audit" => Self::Audit,
            "audit_chain" => {
                Self::AuditChain { name: column("name")?, seq: column("seq")?, hash: column("hash")? }
            }
            _ => return None,
        })
    }
}

/// What hashes of passwords begin with: all others open nothing.
const PASSWORD_HASH: &str = "$argon2";

/// Columns whose text is JSON: a gateway leaves out rows in which it is not.
const JSON: [(&str, &str); 7] = [
    ("models", "config"),
    ("models", "phase"),
    ("api_keys", "models"),
    ("users", "models"),
    ("registry", "urls"),
    ("chat_sessions", "constraints"),
    ("jobs", "log"),
];

fn json_columns(table: &Table) -> Vec<usize> {
    JSON.iter().filter(|it| it.0 == table.name).filter_map(|it| table.column(it.1)).collect()
}

/// Counts rows, in any order.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    tables: Vec<TableTally>,
    proof: Proof,
    audit: AuditTally,
    audit_table: Option<AuditColumns>,
    buffer: Vec<u8>,
}

/// The check of the hash chain without an order: each row is an edge from the row before to itself. Numbers grow along
/// the edges, so if every end of an edge but the head is the beginning of one, and every beginning but the anchor the
/// end of one, the rows are one chain from the anchor to the head. Compared are sums of hashes of both sides.
#[derive(Debug, Clone, Default)]
struct AuditTally {
    ends: u128,
    beginnings: u128,
    anchor: Option<Link>,
    head: Option<Link>,
    broken: bool,
}

impl Tally {
    pub(crate) fn new(schema: &Schema) -> Self {
        let tally = |table: &Table| TableTally {
            rows: 0,
            digest: 0,
            counts: table.counts.then_some(table.key),
            last: 0,
            role: Role::of(table).unwrap_or(Role::None),
            json: json_columns(table),
            unreadable: 0,
        };
        let audit = schema.tables.iter().find(|it| it.name == "audit");
        Self {
            tables: schema.tables.iter().map(tally).collect(),
            proof: Proof::default(),
            audit: AuditTally::default(),
            audit_table: audit.and_then(AuditColumns::of),
            buffer: Vec::new(),
        }
    }

    /// Counts one more row of the table with this index.
    pub(crate) fn add(&mut self, table: usize, row: &Row) {
        let tally = &mut self.tables[table];
        tally.rows += 1;
        self.buffer.clear();
        row.canonical(&mut self.buffer);
        tally.digest = tally.digest.wrapping_add(hash(&self.buffer));
        if let Some(key) = tally.counts {
            tally.last = tally.last.max(row.integer(key));
        }
        let is_json = |column: &usize| match row.get(*column) {
            Value::Text(text) => serde_json::from_str::<IgnoredAny>(text).is_ok(),
            _ => true,
        };
        tally.unreadable += u64::from(!tally.json.iter().all(is_json));
        let add = |to: &mut i64, it: i64| *to = to.saturating_add(it);
        match tally.role {
            Role::None => {}
            Role::Usage { requests, prompt, completion } => {
                let usage = &mut self.proof.usage;
                add(&mut usage.requests, requests.map_or(1, |it| row.integer(it)));
                add(&mut usage.prompt_tokens, row.integer(prompt));
                add(&mut usage.completion_tokens, row.integer(completion));
            }
            Role::Rollups { hours, requests } => {
                let sum = self.proof.rollups.entry(row.integer(hours)).or_default();
                add(sum, row.integer(requests));
            }
            Role::Users { role, enabled, hash } => {
                let may = row.integer(enabled) != 0 && row.text(hash).starts_with(PASSWORD_HASH);
                let owner = row.text(role) == "owner" && may;
                self.proof.enabled_owners += u64::from(owner);
            }
            Role::Audit => {
                let read = self.audit_table.as_ref().and_then(|it| it.row(row));
                self.audit.add(read.as_ref());
            }
            Role::AuditChain { name, seq, hash } => {
                self.audit.end(row.text(name), row.integer(seq), row.get(hash));
            }
        }
    }

    /// Notes the number last given to a row of the table.
    pub(crate) fn sequence(&mut self, table: usize, last: i64) {
        let tally = &mut self.tables[table];
        tally.last = tally.last.max(last);
    }

    /// Returns the highest number that a row of the table was given so far; 0 if none was, or if the table does not count.
    pub(crate) fn last(&self, table: usize) -> i64 {
        self.tables[table].last
    }

    /// Notes that a secret of the table was left out.
    pub(crate) fn redacted(&mut self, table: &str) {
        *self.proof.redacted.entry(table.to_owned()).or_default() += 1;
    }

    /// Says which rows a gateway could not read, though their values have the right types.
    pub(crate) fn unreadable(&self, schema: &Schema) -> Vec<String> {
        let tables = schema.tables.iter().zip(&self.tables).filter(|it| it.1.unreadable > 0);
        let said = |(table, tally): (&Table, &TableTally)| {
            let (name, n) = (&table.name, tally.unreadable);
            if n == 1 {
                format!("a row of `{name}` can't be read: it has a text that is no JSON")
            } else {
                format!("{n} rows of `{name}` can't be read: they have texts that are no JSON")
            }
        };
        tables.map(said).collect()
    }

    /// Returns the counts so far.
    pub(crate) fn proof(&self, schema: &Schema) -> Proof {
        let mut proof = self.proof.clone();
        for (table, tally) in schema.tables.iter().zip(&self.tables) {
            proof.rows.insert(table.name.clone(), tally.rows);
            proof.digests.insert(table.name.clone(), format!("{:032x}", tally.digest));
            if tally.last != 0 {
                proof.sequences.insert(table.name.clone(), tally.last);
            }
        }
        proof.audit = self.audit.proof(proof.rows.get("audit").copied());
        proof
    }
}

impl AuditTally {
    fn add(&mut self, row: Option<&AuditRow>) {
        let Some(row) = row else {
            self.broken = true;
            return;
        };
        self.broken |= row.expected_hash() != row.hash;
        self.ends = self.ends.wrapping_add(link(row.seq, &row.hash));
        self.beginnings = self.beginnings.wrapping_add(link(row.seq.wrapping_sub(1), &row.prev_hash));
    }

    fn end(&mut self, name: &str, seq: i64, hash: Value<'_>) {
        let hash = if let Value::Bytes(it) = hash { it.try_into().ok() } else { None };
        let link = hash.map(|hash| Link { seq, hash });
        match name {
            "head" => self.head = link,
            "anchor" => self.anchor = link,
            _ => self.broken = true,
        }
    }

    /// `rows`: of the audit log; `None` if the schema has none yet.
    fn proof(&self, rows: Option<u64>) -> AuditProof {
        let Some(rows) = rows else {
            // What the migration that adds it begins with.
            return AuditProof { head_hash: hex(&GENESIS), verifies: true, ..AuditProof::default() };
        };
        let (Some(anchor), Some(head)) = (self.anchor, self.head) else {
            return AuditProof { rows, ..AuditProof::default() };
        };
        let chained = self.ends.wrapping_add(link(anchor.seq, &anchor.hash))
            == self.beginnings.wrapping_add(link(head.seq, &head.hash));
        let counted = u64::try_from(head.seq.saturating_sub(anchor.seq)) == Ok(rows);
        AuditProof {
            rows,
            head: head.seq,
            head_hash: hex(&head.hash),
            verifies: chained && counted && !self.broken,
        }
    }
}

fn link(seq: i64, hash_of_row: &[u8; 32]) -> u128 {
    let mut bytes = [0; 40];
    bytes[..8].copy_from_slice(&seq.to_le_bytes());
    bytes[8..].copy_from_slice(hash_of_row);
    hash(&bytes)
}

fn hash(bytes: &[u8]) -> u128 {
    let hash = digest(&SHA256, bytes);
    hash.as_ref().first_chunk().map_or(0, |it| u128::from_le_bytes(*it))
}

/// The columns of an audit row, by their indexes.
#[derive(Debug, Clone)]
struct AuditColumns([usize; 15]);

impl AuditColumns {
    fn of(table: &Table) -> Option<Self> {
        const NAMES: [&str; 15] = [
            "seq",
            "at",
            "actor_type",
            "actor_id",
            "actor",
            "action",
            "object_type",
            "object_id",
            "before",
            "after",
            "ip",
            "request_id",
            "user_agent",
            "prev_hash",
            "hash",
        ];
        let mut columns = [0; 15];
        for (at, name) in NAMES.iter().enumerate() {
            columns[at] = table.column(name)?;
        }
        Some(Self(columns))
    }

    /// Returns the row; `None` if it has a word that this program does not know, or a hash of another length.
    fn row(&self, row: &Row) -> Option<AuditRow> {
        let [seq, at, actor_type, actor_id, actor, action, object_type, object_id, rest @ ..] = self.0;
        let [before, after, ip, request_id, user_agent, prev_hash, hash] = rest;
        let text = |column| if let Value::Text(it) = row.get(column) { Some(it.to_owned()) } else { None };
        let bytes = |column| if let Value::Bytes(it) = row.get(column) { it.try_into().ok() } else { None };
        let id = |column| if let Value::Integer(it) = row.get(column) { Some(it) } else { None };
        Some(AuditRow {
            seq: row.integer(seq),
            at: Timestamp(row.integer(at)),
            actor_type: ActorType::parse(row.text(actor_type))?,
            actor_id: id(actor_id),
            actor: text(actor),
            action: text(action)?,
            object_type: ObjectType::parse(row.text(object_type))?,
            object_id: text(object_id)?,
            before: text(before),
            after: text(after),
            ip: text(ip),
            request_id: text(request_id),
            user_agent: text(user_agent),
            prev_hash: bytes(prev_hash)?,
            hash: bytes(hash)?,
        })
    }
}
