//! Timelines of models.

use gantry_domain::{
    ModelId, Timestamp,
    model::{ModelEvent, State},
};

use crate::{
    Decoded, StoreError, StoreResult, Tx,
    page::clean,
    tx::{on_db, row},
};

row! {
    struct EventRow {
        id: i64,
        at: i64,
        from_state: String,
        to_state: String,
        reason: Option<String>,
        detail: Option<String>,
    }
}

impl TryFrom<EventRow> for ModelEvent {
    type Error = StoreError;

    fn try_from(row: EventRow) -> StoreResult<Self> {
        let corrupt = |what| StoreError::Corrupt { table: "model_events", id: row.id.to_string(), what };
        Ok(Self {
            at: Timestamp(row.at),
            from: State::parse(&row.from_state).ok_or_else(|| corrupt("from_state"))?,
            to: State::parse(&row.to_state).ok_or_else(|| corrupt("to_state"))?,
            reason: row.reason,
            detail: row.detail,
        })
    }
}

impl Tx {
    /// # Errors
    /// [`StoreError::Reference`] if the model is gone.
    pub async fn insert_event(&mut self, model: ModelId, event: &ModelEvent) -> StoreResult<()> {
        const SQL: &str = "INSERT INTO model_events (model_id, at, from_state, to_state, reason, detail) \
                           VALUES ($1, $2, $3, $4, $5, $6)";
        on_db!(self, |conn| {
            sqlx::query(SQL)
                .bind(model.0)
                .bind(event.at.0)
                .bind(event.from.as_str())
                .bind(event.to.as_str())
                // Both may quote what an engine printed.
                .bind(event.reason.as_deref().map(clean))
                .bind(event.detail.as_deref().map(clean))
                .execute(conn)
                .await
                .map(drop)
        })?;
        Ok(())
    }

    /// Returns the last `limit` events, newest first, without those that can't be read ([`Decoded::shown`]).
    pub async fn events(&mut self, model: ModelId, limit: i64) -> StoreResult<Vec<ModelEvent>> {
        const SQL: &str = "SELECT id, at, from_state, to_state, reason, detail FROM model_events \
                           WHERE model_id = $1 ORDER BY id DESC LIMIT $2";
        let rows: Vec<EventRow> =
            on_db!(self, |conn| sqlx::query_as(SQL).bind(model.0).bind(limit).fetch_all(conn).await)?;
        Ok(Decoded::of(rows, ModelEvent::try_from)?.shown())
    }

    /// Deletes all but the last `keep` events and returns how many.
    pub async fn trim_events(&mut self, model: ModelId, keep: i64) -> StoreResult<u64> {
        const SQL: &str = "DELETE FROM model_events WHERE model_id = $1 AND id <= \
                           (SELECT id FROM model_events WHERE model_id = $1 ORDER BY id DESC LIMIT 1 OFFSET $2)";
        Ok(on_db!(self, |conn| {
            let query = sqlx::query(SQL).bind(model.0).bind(keep);
            query.execute(conn).await.map(|done| done.rows_affected())
        })?)
    }
}
