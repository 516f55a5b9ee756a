//! The audit log. Rows are only appended, each with the hash of the row before it, and deleted only from the old end.

use gantry_domain::{
    Timestamp,
    audit::{Action, Actor, ActorType, AuditEntry, AuditRow, Link, ObjectType},
};

use crate::{
    Decoded, StoreError, StoreResult, Tx,
    page::{clean, fold},
    tx::{Conn, on_conn, on_db, row},
};

/// Conditions on audit rows. A row must meet all that are set.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AuditFilter {
    /// At or after.
    pub from: Option<Timestamp>,
    /// Before.
    pub to: Option<Timestamp>,
    /// Id of a user.
    pub actor_id: Option<i64>,
    /// Name of a user at the time of the action, without regard to case.
    pub actor: Option<String>,
    pub action: Option<Action>,
    pub object_type: Option<ObjectType>,
    pub object_id: Option<String>,
}

row! {
    struct StoredRow {
        seq: i64,
        at: i64,
        actor_type: String,
        actor_id: Option<i64>,
        actor: Option<String>,
        action: String,
        object_type: String,
        object_id: String,
        before: Option<String>,
        after: Option<String>,
        ip: Option<String>,
        request_id: Option<String>,
        user_agent: Option<String>,
        prev_hash: Vec<u8>,
        hash: Vec<u8>,
    }
}

impl TryFrom<StoredRow> for AuditRow {
    type Error = StoreError;

    fn try_from(row: StoredRow) -> StoreResult<Self> {
        let corrupt = |what| StoreError::Corrupt { table: "audit", id: row.seq.to_string(), what };
        Ok(Self {
            actor_type: ActorType::parse(&row.actor_type).ok_or_else(|| corrupt("actor_type"))?,
            object_type: ObjectType::parse(&row.object_type).ok_or_else(|| corrupt("object_type"))?,
            prev_hash: hash(row.prev_hash, || row.seq.to_string())?,
            hash: hash(row.hash, || row.seq.to_string())?,
            seq: row.seq,
            at: Timestamp(row.at),
            actor_id: row.actor_id,
            actor: row.actor,
            action: row.action,
            object_id: row.object_id,
            before: row.before,
            after: row.after,
            ip: row.ip,
            request_id: row.request_id,
            user_agent: row.user_agent,
        })
    }
}

fn hash(bytes: Vec<u8>, id: impl FnOnce() -> String) -> StoreResult<[u8; 32]> {
    bytes.try_into().map_err(|_| StoreError::Corrupt { table: "audit", id: id(), what: "hash" })
}

macro_rules! columns {
    () => {
        "seq, at, actor_type, actor_id, actor, action, object_type, object_id, before, after, ip, request_id, \
         user_agent, prev_hash, hash"
    };
}

/// All conditions, as [`bind!`] binds them.
macro_rules! matching {
    () => {
        " FROM audit WHERE (CAST($1 AS BIGINT) IS NULL OR at >= $1) AND (CAST($2 AS BIGINT) IS NULL OR at < $2) \
          AND (CAST($3 AS BIGINT) IS NULL OR actor_id = $3) AND (CAST($4 AS TEXT) IS NULL OR action = $4) \
          AND (CAST($5 AS TEXT) IS NULL OR object_type = $5) AND (CAST($6 AS TEXT) IS NULL OR object_id = $6) \
          AND (CAST($7 AS TEXT) IS NULL OR actor IN ($7, $8, $9, $10, $11, $12, $13, $14))"
    };
}

/// Binds a filter, and the [`SPELLINGS`] of its actor, to a query over [`matching!`].
macro_rules! bind {
    ($query:expr, $filter:expr, $spellings:expr) => {{
        let filter: &AuditFilter = $filter;
        let mut query = $query
            .bind(filter.from.map(|it| it.0))
            .bind(filter.to.map(|it| it.0))
            .bind(filter.actor_id)
            .bind(filter.action.map(Action::as_str))
            .bind(filter.object_type.map(ObjectType::as_str))
            .bind(filter.object_id.as_deref().map(clean));
        for spelling in $spellings {
            query = query.bind(spelling.as_deref());
        }
        query
    }};
}

/// Most spellings of one name that a filter looks for. People change a name back and forth fewer times than that.
const SPELLINGS: usize = 8;

const HEAD: &str = "head";
const ANCHOR: &str = "anchor";

/// Appends a row and returns its number; see [`Tx::audit`].
pub(crate) async fn append(conn: &mut Conn<'_>, entry: &AuditEntry, now: Timestamp) -> StoreResult<i64> {
    // Locks the row, so that the next transaction that appends reads the hash of this one.
    const LOCK: &str = "UPDATE audit_chain SET seq = seq + 1 WHERE name = $1 RETURNING seq, hash";
    const SQL: &str = concat!(
        "INSERT INTO audit (",
        columns!(),
        ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)"
    );
    const MOVE: &str = "UPDATE audit_chain SET hash = $2 WHERE name = $1";
    let (seq, previous): (i64, Vec<u8>) =
        on_conn!(conn, |conn| sqlx::query_as(LOCK).bind(HEAD).fetch_one(conn).await)?;
    let previous = hash(previous, || HEAD.to_owned())?;
    let row = new_row(entry, seq, now, &previous);
    on_conn!(conn, |conn| {
        sqlx::query(SQL)
            .bind(row.seq)
            .bind(row.at.0)
            .bind(row.actor_type.as_str())
            .bind(row.actor_id)
            .bind(row.actor.as_deref())
            .bind(row.action.as_str())
            .bind(row.object_type.as_str())
            .bind(row.object_id.as_str())
            .bind(row.before.as_deref())
            .bind(row.after.as_deref())
            .bind(row.ip.as_deref())
            .bind(row.request_id.as_deref())
            .bind(row.user_agent.as_deref())
            .bind(&row.prev_hash[..])
            .bind(&row.hash[..])
            .execute(conn)
            .await
            .map(drop)
    })?;
    on_conn!(conn, |conn| sqlx::query(MOVE).bind(HEAD).bind(&row.hash[..]).execute(conn).await.map(drop))?;
    Ok(seq)
}

impl Tx {
    /// Appends a row and returns its number. Call it last, right before [`Tx::commit`]: from here on no other gateway
    /// can append until the transaction ends, and nothing but the row of [`Tx::change_counter`] is locked after it.
    pub async fn audit(&mut self, entry: &AuditEntry, now: Timestamp) -> StoreResult<i64> {
        on_db!(self, |conn| append(&mut conn.into(), entry, now).await)
    }

    /// Returns one page of rows, newest first, and how many there are on all pages.
    ///
    /// Databases use no index for a condition that a parameter may switch off. So the most frequent queries have SQL
    /// texts of their own: all rows (they have no gaps, so the numbers of the ends give their count), rows of a time
    /// range, rows of one object.
    pub async fn audit_rows(
        &mut self,
        filter: &AuditFilter,
        limit: i64,
        offset: i64,
    ) -> StoreResult<(Vec<AuditRow>, i64)> {
        const COUNT: [&str; 2] = [
            concat!("SELECT COUNT(*)", matching!()),
            concat!("SELECT COUNT(*)", matching!(), " AND object_type = $5 AND object_id = $6"),
        ];
        const COUNT_TIME: &str = "SELECT COUNT(*) FROM audit WHERE at >= $1 AND at < $2";
        const SQL: [&str; 2] = [
            concat!("SELECT ", columns!(), matching!(), " ORDER BY seq DESC LIMIT $15 OFFSET $16"),
            concat!(
                "SELECT ",
                columns!(),
                matching!(),
                " AND object_type = $5 AND object_id = $6 ORDER BY seq DESC LIMIT $15 OFFSET $16"
            ),
        ];
        let spellings = match &filter.actor {
            None => [const { None }; SPELLINGS],
            Some(name) => self.actors(name).await?,
        };
        let one_object = usize::from(filter.object_type.is_some() && filter.object_id.is_some());
        let of_a_time = AuditFilter { from: filter.from, to: filter.to, ..AuditFilter::default() };
        let total = if *filter == AuditFilter::default() {
            let (anchor, head) = self.audit_ends().await?;
            head.seq - anchor.seq
        } else if *filter == of_a_time {
            let (from, to) = (filter.from.map_or(i64::MIN, |it| it.0), filter.to.map_or(i64::MAX, |it| it.0));
            on_db!(self, |conn| sqlx::query_scalar(COUNT_TIME).bind(from).bind(to).fetch_one(conn).await)?
        } else {
            on_db!(self, |conn| {
                bind!(sqlx::query_scalar(COUNT[one_object]), filter, &spellings).fetch_one(conn).await
            })?
        };
        let rows: Vec<StoredRow> = on_db!(self, |conn| {
            let query = bind!(sqlx::query_as(SQL[one_object]), filter, &spellings);
            query.bind(limit).bind(offset).fetch_all(conn).await
        })?;
        Ok((Decoded::of(rows, AuditRow::try_from)?.shown(), total))
    }

    /// Returns the spellings of a name that occur in rows, which may differ in case and in the composition of accents.
    /// If there is none, returns the name itself. Rows are part of a hash chain, so they can't get a column of the
    /// folded form.
    async fn actors(&mut self, name: &str) -> StoreResult<[Option<String>; SPELLINGS]> {
        const SQL: &str = "SELECT DISTINCT actor FROM audit WHERE actor IS NOT NULL";
        let known: Vec<String> = on_db!(self, |conn| sqlx::query_scalar(SQL).fetch_all(conn).await)?;
        let wanted = fold(name);
        let mut same = known.into_iter().filter(|it| fold(it) == wanted);
        let first = same.next().unwrap_or_else(|| clean(name).into_owned());
        let mut all = [const { None }; SPELLINGS];
        for (slot, actor) in all.iter_mut().zip(std::iter::once(first).chain(same)) {
            *slot = Some(actor);
        }
        Ok(all)
    }

    /// Returns up to `limit` rows after number `seq`, oldest first.
    pub async fn audit_after(&mut self, seq: i64, limit: i64) -> StoreResult<Vec<AuditRow>> {
        const SQL: &str = concat!("SELECT ", columns!(), " FROM audit WHERE seq > $1 ORDER BY seq LIMIT $2");
        let rows: Vec<StoredRow> =
            on_db!(self, |conn| sqlx::query_as(SQL).bind(seq).bind(limit).fetch_all(conn).await)?;
        rows.into_iter().map(AuditRow::try_from).collect()
    }

    /// Returns the last row that retention deleted (number 0 if none), and the last one that was written.
    pub async fn audit_ends(&mut self) -> StoreResult<(Link, Link)> {
        Ok((self.link(ANCHOR).await?, self.link(HEAD).await?))
    }

    async fn link(&mut self, name: &str) -> StoreResult<Link> {
        const SQL: &str = "SELECT seq, hash FROM audit_chain WHERE name = $1";
        let (seq, bytes): (i64, Vec<u8>) =
            on_db!(self, |conn| sqlx::query_as(SQL).bind(name).fetch_one(conn).await)?;
        Ok(Link { seq, hash: hash(bytes, || name.to_owned())? })
    }

    /// Deletes up to `limit` rows from the old end that were written before `time`, and returns how many. The last of
    /// them becomes the anchor, so that the rest can still be checked. Never deletes the newest row. A row with a time
    /// after `now`, which a wrong clock wrote, doesn't stop the deletion of older rows.
    pub async fn delete_audit_before(
        &mut self,
        time: Timestamp,
        now: Timestamp,
        limit: i64,
    ) -> StoreResult<u64> {
        // Locks the row. If two gateways delete at once, the second one begins where the first one ended.
        const LOCK: &str = "UPDATE audit_chain SET seq = seq WHERE name = $1 RETURNING seq";
        // Rows that a clock that was set back wrote out of order stay until all rows before them may go.
        const LAST: &str = "SELECT MAX(seq) FROM audit WHERE seq > $1 AND seq <= $1 + $2 \
                            AND seq < (SELECT COALESCE(MIN(seq), 0) FROM audit WHERE at >= $3 AND at <= $4) ";
        const ALL_OLD: &str = "SELECT MAX(seq) - 1 FROM audit WHERE NOT EXISTS (SELECT 1 FROM audit WHERE at >= $1 AND at <= $2)";
        const MOVE: &str = "UPDATE audit_chain SET seq = $2, hash = (SELECT hash FROM audit WHERE seq = $2) \
                            WHERE name = $1";
        const SQL: &str = "DELETE FROM audit WHERE seq <= $1";
        let anchor: i64 = on_db!(self, |conn| sqlx::query_scalar(LOCK).bind(ANCHOR).fetch_one(conn).await)?;
        let young: Option<i64> = on_db!(self, |conn| {
            sqlx::query_scalar(LAST).bind(anchor).bind(limit).bind(time.0).bind(now.0).fetch_one(conn).await
        })?;
        let all: Option<i64> =
            on_db!(self, |conn| sqlx::query_scalar(ALL_OLD).bind(time.0).bind(now.0).fetch_one(conn).await)?;
        let last = young.or(all.map(|it| it.min(anchor.saturating_add(limit))));
        let Some(last) = last.filter(|it| *it > anchor) else { return Ok(0) };
        on_db!(self, |conn| sqlx::query(MOVE).bind(ANCHOR).bind(last).execute(conn).await.map(drop))?;
        Ok(on_db!(self, |conn| {
            sqlx::query(SQL).bind(last).execute(conn).await.map(|done| done.rows_affected())
        })?)
    }
}

fn new_row(entry: &AuditEntry, seq: i64, at: Timestamp, previous: &[u8; 32]) -> AuditRow {
    let text = |it: &Option<String>| it.as_deref().map(|it| clean(it).into_owned());
    let (actor_id, actor) = match &entry.actor {
        Actor::User { id, username } => (Some(id.0), Some(clean(username).into_owned())),
        Actor::Anonymous | Actor::Settings => (None, None),
    };
    let mut row = AuditRow {
        seq,
        at,
        actor_type: entry.actor.kind(),
        actor_id,
        actor,
        action: entry.action.as_str().to_owned(),
        object_type: entry.action.object_type(),
        object_id: clean(&entry.object_id).into_owned(),
        // JSON text never contains a raw NUL, so it needs no `clean`.
        before: entry.before.as_ref().map(ToString::to_string),
        after: entry.stored_after().as_ref().map(ToString::to_string),
        ip: text(&entry.origin.ip),
        request_id: text(&entry.origin.request_id),
        user_agent: text(&entry.origin.user_agent),
        prev_hash: *previous,
        hash: [0; 32],
    };
    row.hash = row.expected_hash();
    row
}
