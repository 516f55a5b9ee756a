//! Model records. `wanted` and `generation` are written by commands, `phase` by the reconciler, the rest by drafts: no
//! two of them share a column.

use gantry_domain::{
    ModelId, Timestamp,
    diagnosis::Diagnosis,
    model::{Apply, Blueprint, EngineKind, Model, ModelConfig, ModelDraft, Phase, Starts, Task, Wanted},
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    Decoded, LastRestore, Seal, StoreError, StoreResult, Tx,
    page::clean,
    seal::SecretPlace,
    tx::{Both, on_db, row},
};

row! {
    struct ModelRow {
        id: i64,
        name: String,
        served_name: String,
        task: String,
        engine: String,
        config: String,
        hub_token: Option<String>,
        archived: bool,
        wanted: String,
        generation: i64,
        phase: String,
        diagnosis: Option<String>,
        launched: Option<String>,
        last_good: Option<String>,
        apply: Option<String>,
        starts: Option<String>,
        created_at: i64,
        updated_at: i64,
    }
}

row! {
    struct Standing {
        deleting: bool,
        restored: Option<String>,
    }
}

/// A model as the reconciler sees it, also if it is archived.
#[derive(Debug, Clone)]
pub struct ModelToReconcile {
    pub model: Model,
    pub deleting: bool,
    /// Instances that were seen before another restore belong to another record, even if its id is the same.
    pub restored: LastRestore,
}

fn json<T: DeserializeOwned>(text: Option<&str>) -> Result<Option<T>, serde_json::Error> {
    text.map(serde_json::from_str).transpose()
}

impl TryFrom<ModelRow> for Model {
    type Error = StoreError;

    fn try_from(row: ModelRow) -> StoreResult<Self> {
        let corrupt = |what| StoreError::Corrupt { table: "models", id: row.id.to_string(), what };
        let config = serde_json::from_str(&row.config).map_err(|_| corrupt("config"))?;
        Ok(Self {
            id: ModelId(row.id),
            task: Task::parse(&row.task).ok_or_else(|| corrupt("task"))?,
            engine: EngineKind::parse(&row.engine).ok_or_else(|| corrupt("engine"))?,
            config: ModelConfig::from_stored(config),
            wanted: Wanted::parse(&row.wanted).ok_or_else(|| corrupt("wanted"))?,
            phase: serde_json::from_str(&row.phase).map_err(|_| corrupt("phase"))?,
            // The diagnosis is only advice. If another version wrote it and this one can't read it, the model is still
            // shown.
            diagnosis: row.diagnosis.as_deref().and_then(|it| serde_json::from_str(it).ok()),
            launched: json(row.launched.as_deref()).map_err(|_| corrupt("launched"))?,
            last_good: json(row.last_good.as_deref()).map_err(|_| corrupt("last_good"))?,
            apply: json(row.apply.as_deref()).map_err(|_| corrupt("apply"))?,
            starts: json(row.starts.as_deref()).map_err(|_| corrupt("starts"))?,
            name: row.name,
            served_name: row.served_name,
            // The row holds the token as it is stored; [`decoded`] decrypts it.
            hub_token: None,
            sealed_hub_token: row.hub_token,
            archived: row.archived,
            generation: row.generation,
            created_at: Timestamp(row.created_at),
            updated_at: Timestamp(row.updated_at),
        })
    }
}

/// Returns the model of a row, with its secret decrypted if this gateway has the key.
fn decoded(row: ModelRow, seal: &Seal) -> StoreResult<Model> {
    let mut model = Model::try_from(row)?;
    if let Some(stored) = model.sealed_hub_token.take() {
        (model.hub_token, model.sealed_hub_token) = seal.open(SecretPlace::HubToken, stored).parts();
    }
    Ok(model)
}

fn to_reconcile(Both(row, it): Both<ModelRow, Standing>, seal: &Seal) -> StoreResult<ModelToReconcile> {
    Ok(ModelToReconcile {
        model: decoded(row, seal)?,
        deleting: it.deleting,
        restored: LastRestore(it.restored),
    })
}

/// Returns the form in which a draft's secret is stored. A secret that can't be decrypted stays as it is.
fn hub_token(draft: &ModelDraft, seal: &Seal) -> StoreResult<Option<String>> {
    match &draft.hub_token {
        Some(token) => seal.close(SecretPlace::HubToken, token).map(Some),
        None => Ok(draft.sealed_hub_token.clone()),
    }
}

fn config_text(config: &ModelConfig) -> StoreResult<String> {
    serde_json::to_string(config.values()).map_err(encode)
}

fn json_text<T: Serialize>(value: &T) -> StoreResult<String> {
    serde_json::to_string(value).map_err(encode)
}

fn encode(error: serde_json::Error) -> StoreError {
    StoreError::Database(sqlx::Error::Encode(error.into()))
}

/// The columns of [`ModelRow`].
macro_rules! columns {
    () => {
        "id, name, served_name, task, engine, config, hub_token, archived, wanted, generation, phase, \
         diagnosis, launched, last_good, apply, starts, created_at, updated_at"
    };
}

/// The columns of [`Standing`]. One statement reads them with the model, so that both are from before a restore or after it.
macro_rules! standing {
    () => {
        "deleting, (SELECT value FROM meta WHERE key = 'restored') AS restored"
    };
}

impl Tx {
    /// Adds a new model that is stopped and was never started.
    ///
    /// # Errors
    /// [`crate::Constraint::ServedName`] if another model that is not archived has the name.
    pub async fn insert_model(&mut self, draft: &ModelDraft, now: Timestamp) -> StoreResult<Model> {
        const SQL: &str = concat!(
            "INSERT INTO models (name, served_name, task, engine, config, hub_token, archived, deleting, wanted, \
             generation, phase, created_at, updated_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, FALSE, $8, 0, $9, $10, $10) RETURNING ",
            columns!()
        );
        self.changes_catalog = true;
        let (config, phase) = (config_text(&draft.config)?, json_text(&Phase::NEW)?);
        let hub_token = hub_token(draft, &self.seal)?;
        let row: ModelRow = on_db!(self, |conn| {
            sqlx::query_as(SQL)
                .bind(draft.name.as_str())
                .bind(draft.served_name.as_str())
                .bind(draft.task.as_str())
                .bind(draft.engine.as_str())
                .bind(config)
                .bind(hub_token)
                .bind(draft.archived)
                .bind(Wanted::Stopped.as_str())
                .bind(phase)
                .bind(now.0)
                .fetch_one(conn)
                .await
        })?;
        decoded(row, &self.seal)
    }

    /// Returns the model; `None` also for a model that is being deleted.
    pub async fn model(&mut self, id: ModelId) -> StoreResult<Option<Model>> {
        const SQL: &str = concat!("SELECT ", columns!(), " FROM models WHERE id = $1 AND NOT deleting");
        let row: Option<ModelRow> =
            on_db!(self, |conn| sqlx::query_as(SQL).bind(id.0).fetch_optional(conn).await)?;
        row.map(|it| decoded(it, &self.seal)).transpose()
    }

    /// Returns all models by id, without those that are being deleted and those that can't be read
    /// ([`Decoded::shown`]).
    pub async fn models(&mut self, include_archived: bool) -> StoreResult<Vec<Model>> {
        let rows = self.model_rows(include_archived).await?;
        Ok(Decoded::of(rows, |it| decoded(it, &self.seal))?.shown())
    }

    /// Returns the models that are not archived, as far as they can be read.
    pub async fn readable_models(&mut self) -> StoreResult<Decoded<Model>> {
        let rows = self.model_rows(false).await?;
        Decoded::of(rows, |it| decoded(it, &self.seal))
    }

    async fn model_rows(&mut self, include_archived: bool) -> StoreResult<Vec<ModelRow>> {
        const SQL: &str = concat!(
            "SELECT ",
            columns!(),
            " FROM models WHERE NOT deleting AND (NOT archived OR $1) ORDER BY id"
        );
        Ok(on_db!(self, |conn| sqlx::query_as(SQL).bind(include_archived).fetch_all(conn).await)?)
    }

    /// Returns every model by id, archived ones too, as far as they can be read.
    pub async fn models_for_reconcile(&mut self) -> StoreResult<Decoded<ModelToReconcile>> {
        const SQL: &str = concat!("SELECT ", standing!(), ", ", columns!(), " FROM models ORDER BY id");
        let rows: Vec<Both<ModelRow, Standing>> =
            on_db!(self, |conn| sqlx::query_as(SQL).fetch_all(conn).await)?;
        Decoded::of(rows, |it| to_reconcile(it, &self.seal))
    }

    /// Returns one model, also if it is archived or being deleted.
    pub async fn model_for_reconcile(&mut self, id: ModelId) -> StoreResult<Option<ModelToReconcile>> {
        const SQL: &str = concat!("SELECT ", standing!(), ", ", columns!(), " FROM models WHERE id = $1");
        let row: Option<Both<ModelRow, Standing>> =
            on_db!(self, |conn| sqlx::query_as(SQL).bind(id.0).fetch_optional(conn).await)?;
        row.map(|it| to_reconcile(it, &self.seal)).transpose()
    }

    /// Replaces identity and settings. What is wanted and what the reconciler saw stay as they are.
    ///
    /// # Errors
    /// [`crate::Constraint::ServedName`] if another model that is not archived has the name.
    pub async fn update_model(
        &mut self,
        id: ModelId,
        draft: &ModelDraft,
        now: Timestamp,
    ) -> StoreResult<Option<Model>> {
        const SQL: &str = concat!(
            "UPDATE models SET name = $2, served_name = $3, task = $4, engine = $5, config = $6, hub_token = $7, \
             archived = $8, updated_at = $9 WHERE id = $1 AND NOT deleting RETURNING ",
            columns!()
        );
        self.changes_catalog = true;
        let config = config_text(&draft.config)?;
        let hub_token = hub_token(draft, &self.seal)?;
        let row: Option<ModelRow> = on_db!(self, |conn| {
            sqlx::query_as(SQL)
                .bind(id.0)
                .bind(draft.name.as_str())
                .bind(draft.served_name.as_str())
                .bind(draft.task.as_str())
                .bind(draft.engine.as_str())
                .bind(config)
                .bind(hub_token)
                .bind(draft.archived)
                .bind(now.0)
                .fetch_optional(conn)
                .await
        })?;
        row.map(|it| decoded(it, &self.seal)).transpose()
    }

    /// Locks the model's row until the transaction ends, so that no other gateway can change what this one reads before
    /// it writes. Returns `false` if there is no such model.
    pub async fn lock_model(&mut self, id: ModelId) -> StoreResult<bool> {
        const SQL: &str = "UPDATE models SET generation = generation WHERE id = $1 AND NOT deleting";
        let rows = on_db!(self, |conn| {
            sqlx::query(SQL).bind(id.0).execute(conn).await.map(|done| done.rows_affected())
        })?;
        Ok(rows > 0)
    }

    /// Notes what the operator wants now, as a new generation; `apply` has the details if the command is an apply. A
    /// start clears the diagnosis of the last failure. Every command clears the record of what was started since the
    /// previous command. Returns `None` also for a model that is being deleted.
    pub async fn command(
        &mut self,
        id: ModelId,
        wanted: Wanted,
        apply: Option<&Apply>,
        now: Timestamp,
    ) -> StoreResult<Option<Model>> {
        const SQL: &str = concat!(
            "UPDATE models SET wanted = $2, generation = generation + 1, apply = $3, starts = NULL, updated_at = $4, \
             diagnosis = CASE WHEN $5 THEN NULL ELSE diagnosis END WHERE id = $1 AND NOT deleting RETURNING ",
            columns!()
        );
        self.changes_catalog = true;
        let apply = apply.map(json_text).transpose()?;
        let row: Option<ModelRow> = on_db!(self, |conn| {
            let query = sqlx::query_as(SQL).bind(id.0).bind(wanted.as_str()).bind(apply).bind(now.0);
            let query = query.bind(wanted == Wanted::Running);
            query.fetch_optional(conn).await
        })?;
        row.map(|it| decoded(it, &self.seal)).transpose()
    }

    /// Notes what the reconciler saw of `model`, and what follows from it for its blueprints. Returns `false` and notes
    /// nothing if there was a command since the reconciler looked (the generation is no longer that of `model`), or if
    /// the model is gone: deleted, or another one since a restore.
    ///
    /// A start that begins fixes the blueprint that the container is made from, and notes in which boot of the machine
    /// that is (`boot`, its boot id). An engine that gets ready makes this blueprint the last good one and ends the
    /// apply.
    pub async fn record_phase(&mut self, model: &Model, phase: &Phase, boot: &str) -> StoreResult<bool> {
        const PLAIN: &str =
            "UPDATE models SET phase = $4 WHERE id = $1 AND generation = $2 AND created_at = $3";
        const BEGIN: &str = "UPDATE models SET phase = $4, launched = $5, starts = $6 \
                             WHERE id = $1 AND generation = $2 AND created_at = $3";
        const READY: &str = "UPDATE models SET phase = $4, last_good = $5, apply = $6, diagnosis = NULL \
                             WHERE id = $1 AND generation = $2 AND created_at = $3";
        self.changes_catalog = true;
        let text = json_text(phase)?;
        let rows = match phase {
            Phase::Starting { .. } => {
                let launched = json_text(&model.to_launch())?;
                let before = model.starts.clone().unwrap_or_default();
                let starts = json_text(&Starts { boot: Some(boot.to_owned()), ..before })?;
                on_db!(self, |conn| {
                    let query = sqlx::query(BEGIN).bind(model.id.0).bind(model.generation);
                    let query = query.bind(model.created_at.0).bind(text).bind(launched).bind(starts);
                    query.execute(conn).await.map(|done| done.rows_affected())
                })?
            }
            Phase::Running { .. } => {
                let good = model.launched.as_ref().map(json_text).transpose()?;
                let apply = model.apply.as_ref().and_then(Apply::done);
                let apply = apply.as_ref().map(json_text).transpose()?;
                on_db!(self, |conn| {
                    let query = sqlx::query(READY).bind(model.id.0).bind(model.generation);
                    let query = query.bind(model.created_at.0).bind(text).bind(good).bind(apply);
                    query.execute(conn).await.map(|done| done.rows_affected())
                })?
            }
            _ => on_db!(self, |conn| {
                let query = sqlx::query(PLAIN).bind(model.id.0).bind(model.generation);
                query.bind(model.created_at.0).bind(text).execute(conn).await.map(|done| done.rows_affected())
            })?,
        };
        Ok(rows > 0)
    }

    /// Notes why the model failed, in its record and in the last entry of its timeline. Returns `false` and changes
    /// nothing if the generation is no longer `expected_generation`, or the model is gone.
    pub async fn record_diagnosis(
        &mut self,
        id: ModelId,
        expected_generation: i64,
        diagnosis: &Diagnosis,
    ) -> StoreResult<bool> {
        const MODEL: &str = "UPDATE models SET diagnosis = $3 WHERE id = $1 AND generation = $2";
        const EVENT: &str = "UPDATE model_events SET detail = CASE WHEN detail IS NULL THEN $2 ELSE detail || ': ' || $2 END \
                             WHERE to_state = 'failed' AND id = (SELECT MAX(id) FROM model_events WHERE model_id = $1)";
        self.changes_catalog = true;
        let text = json_text(diagnosis)?;
        let rows = on_db!(self, |conn| {
            let query = sqlx::query(MODEL).bind(id.0).bind(expected_generation).bind(text);
            query.execute(conn).await.map(|done| done.rows_affected())
        })?;
        if rows == 0 {
            return Ok(false);
        }
        let line = diagnosis.line();
        on_db!(self, |conn| {
            sqlx::query(EVENT).bind(id.0).bind(clean(&line)).execute(conn).await.map(drop)
        })?;
        Ok(true)
    }

    /// Puts a blueprint back into the record and starts it as a new generation, unless there was a command since
    /// `model` was read.
    pub async fn roll_back(
        &mut self,
        model: &Model,
        to: &Blueprint,
        apply: &Apply,
        now: Timestamp,
    ) -> StoreResult<Option<Model>> {
        const SQL: &str = concat!(
            "UPDATE models SET task = $3, config = $4, wanted = 'running', \
             generation = generation + 1, apply = $5, starts = NULL, diagnosis = NULL, updated_at = $6 \
             WHERE id = $1 AND generation = $2 AND NOT deleting RETURNING ",
            columns!()
        );
        self.changes_catalog = true;
        let (config, apply) = (config_text(&to.config)?, json_text(apply)?);
        let row: Option<ModelRow> = on_db!(self, |conn| {
            sqlx::query_as(SQL)
                .bind(model.id.0)
                .bind(model.generation)
                .bind(to.task.as_str())
                .bind(config)
                .bind(apply)
                .bind(now.0)
                .fetch_optional(conn)
                .await
        })?;
        row.map(|it| decoded(it, &self.seal)).transpose()
    }

    /// Starts the model again as a new generation, without a command of an operator, unless there was a command since
    /// `model` was read. Ends an apply that was under way.
    pub async fn start_again(&mut self, model: &Model, starts: &Starts) -> StoreResult<Option<Model>> {
        const SQL: &str = concat!(
            "UPDATE models SET generation = generation + 1, apply = $4, starts = $5, diagnosis = NULL \
             WHERE id = $1 AND generation = $2 AND created_at = $3 AND wanted = 'running' AND NOT deleting RETURNING ",
            columns!()
        );
        self.changes_catalog = true;
        let apply = model.apply.as_ref().and_then(Apply::done);
        let (apply, starts) = (apply.as_ref().map(json_text).transpose()?, json_text(starts)?);
        let row: Option<ModelRow> = on_db!(self, |conn| {
            let query = sqlx::query_as(SQL).bind(model.id.0).bind(model.generation);
            query.bind(model.created_at.0).bind(apply).bind(starts).fetch_optional(conn).await
        })?;
        row.map(|it| decoded(it, &self.seal)).transpose()
    }

    /// Notes that the failed apply of `model` is not rolled back, unless there was a command since `model` was read.
    pub async fn give_up_roll_back(&mut self, model: &Model) -> StoreResult<bool> {
        const SQL: &str = "UPDATE models SET apply = NULL WHERE id = $1 AND generation = $2 AND NOT deleting";
        self.changes_catalog = true;
        let rows = on_db!(self, |conn| {
            let query = sqlx::query(SQL).bind(model.id.0).bind(model.generation);
            query.execute(conn).await.map(|done| done.rows_affected())
        })?;
        Ok(rows > 0)
    }

    /// Notes that the model is to be stopped and deleted. It vanishes from lists, its served name is free, and the
    /// reconciler calls [`Tx::delete_model`] when no container is left. Marking it again changes nothing.
    pub async fn mark_deleting(&mut self, id: ModelId, now: Timestamp) -> StoreResult<Option<Model>> {
        const MARK: &str = "UPDATE models SET deleting = TRUE, wanted = 'stopped', generation = generation + 1, \
                            apply = NULL, updated_at = $2 WHERE id = $1 AND NOT deleting";
        const SQL: &str = concat!("SELECT ", columns!(), " FROM models WHERE id = $1");
        self.changes_catalog = true;
        on_db!(self, |conn| sqlx::query(MARK).bind(id.0).bind(now.0).execute(conn).await.map(drop))?;
        let row: Option<ModelRow> =
            on_db!(self, |conn| sqlx::query_as(SQL).bind(id.0).fetch_optional(conn).await)?;
        row.map(|it| decoded(it, &self.seal)).transpose()
    }

    /// Deletes the record and its events at once, unless a restore has put another one in its place.
    pub async fn delete_model(&mut self, model: &Model) -> StoreResult<bool> {
        const SQL: &str = "DELETE FROM models WHERE id = $1 AND created_at = $2";
        self.changes_catalog = true;
        let rows = on_db!(self, |conn| {
            let query = sqlx::query(SQL).bind(model.id.0).bind(model.created_at.0);
            query.execute(conn).await.map(|done| done.rows_affected())
        })?;
        Ok(rows > 0)
    }
}
