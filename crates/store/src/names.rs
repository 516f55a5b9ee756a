//! Names that must be unique beyond what an index can check: those by which requests choose a model (of a model, an
//! adapter or a registry entry), and those of users and organisations in the spelling of older versions. Also the names
//! that stay when what had them is deleted.

use gantry_domain::{ModelId, OrgId, UserId, name};

use crate::{Constraint, StoreError, StoreResult, Tx, page::clean, tx::on_db};

/// A table whose rows have a unique name.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NamedTable {
    Orgs,
    Users,
}

/// The statement that keeps the names that another one selects. A database that was changed by hand may give a number
/// twice: then the later name counts.
macro_rules! kept {
    ($names:expr) => {
        concat!(
            "INSERT INTO deleted_names (kind, former_id, org_id, name) ",
            $names,
            " ON CONFLICT (kind, former_id) DO UPDATE SET org_id = excluded.org_id, name = excluded.name"
        )
    };
}

impl Tx {
    /// Checks what the unique index on names can't: that no row other than `own` (its id) has this name in the form of
    /// older versions, in which accents could be written in two ways.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if there is one.
    pub(crate) async fn check_spelling(
        &mut self,
        table: NamedTable,
        text: &str,
        own: Option<i64>,
    ) -> StoreResult<()> {
        const ORGS: &str = "SELECT EXISTS (SELECT 1 FROM orgs WHERE name_lower IN ($1, $2) AND id <> $3)";
        const USERS: &str =
            "SELECT EXISTS (SELECT 1 FROM users WHERE username_lower IN ($1, $2) AND id <> $3)";
        let (sql, constraint) = match table {
            NamedTable::Orgs => (ORGS, Constraint::OrgName),
            NamedTable::Users => (USERS, Constraint::Username),
        };
        let [written, apart] = name::older_folded(&clean(text));
        // No row has the id 0.
        let own = own.unwrap_or(0);
        let taken: bool = on_db!(self, |conn| {
            sqlx::query_scalar(sql).bind(written).bind(apart).bind(own).fetch_one(conn).await
        })?;
        if taken { Err(StoreError::Conflict(constraint)) } else { Ok(()) }
    }

    /// Finds the first of the names that another model, adapter or registry entry already uses. Returns the field that
    /// holds it, and a sentence that says where. `id` is the model's own id, if it has one. The result holds until the
    /// transaction ends if the transaction is [`Tx::exclusive`].
    pub async fn taken_name(
        &mut self,
        id: Option<ModelId>,
        served_name: &str,
        adapters: &[&str],
    ) -> StoreResult<Option<(&'static str, String)>> {
        let mut others = Vec::new();
        for model in self.models(false).await?.into_iter().filter(|it| Some(it.id) != id) {
            let whose = format!("the model `{}` (id {})", model.name, model.id.0);
            let names =
                model.adapters().into_iter().map(|it| (it.to_owned(), format!("an adapter of {whose}")));
            others.extend(names);
            others.push((model.served_name, whose));
        }
        let registry = self.registry().await?.into_iter();
        others.extend(registry.map(|it| (it.served_name, "an engine of the registry".to_owned())));
        let wanted = [("served_name", served_name)].into_iter();
        let wanted = wanted.chain(adapters.iter().map(|it| ("lora_adapters", *it)));
        let found = |(param, name): (&'static str, &str)| {
            let (_, whose) = others.iter().find(|(other, _)| other == name)?;
            Some((param, format!("{whose} is served as `{name}`")))
        };
        Ok(wanted.into_iter().find_map(found))
    }

    /// Keeps the names of a user who is about to be deleted, and of the user's keys, for reports of usage.
    pub(crate) async fn keep_names_of_user(&mut self, id: UserId) -> StoreResult<()> {
        const SQL: &str = kept!(
            "SELECT 'user', id, org_id, username FROM users WHERE id = $1 \
             UNION ALL SELECT 'key', id, org_id, name FROM api_keys WHERE user_id = $1"
        );
        on_db!(self, |conn| sqlx::query(SQL).bind(id.0).execute(conn).await.map(drop))?;
        Ok(())
    }

    /// Keeps the names of an organisation that is about to be deleted, and of its users and keys, for reports of usage.
    pub(crate) async fn keep_names_of_org(&mut self, id: OrgId) -> StoreResult<()> {
        const SQL: &str = kept!(
            "SELECT 'org', id, id, name FROM orgs WHERE id = $1 \
             UNION ALL SELECT 'user', id, org_id, username FROM users WHERE org_id = $1 \
             UNION ALL SELECT 'key', id, org_id, name FROM api_keys WHERE org_id = $1"
        );
        on_db!(self, |conn| sqlx::query(SQL).bind(id.0).execute(conn).await.map(drop))?;
        Ok(())
    }
}
