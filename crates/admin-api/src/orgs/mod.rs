//! `/admin/orgs`.

use axum::{Json, extract::State};
use gantry_domain::{
    ApiError, ErrorCode, OrgId, Role, audit::Action, identity::Org, limit::Limits, schema::Rfc3339, view,
};
use gantry_store::{OrgChange, OrgColumn, OrgFilter, Sort, Tx, UserFilter};

use serde_json::json;

use crate::{
    App,
    app::Parts,
    audit::record,
    caller::Caller,
    error::{Outcome, Problem},
    limits::{Budgets, LimitChange},
    operation::{
        Body, Created, Deleted, Id, IfMatch, Listed, Name, Operation, Page, Query, Search, form, query,
    },
    ports::LimitHolder,
};

view! {
    /// An organisation as answers show it.
    #[derive(Debug)]
    pub(crate) struct OrgView: "Organisation" {
        id: OrgId,
        name: String,
        enabled: bool,
        user_count: i64,
        key_count: i64,
        created_at: Rfc3339,
        limits: Limits => part,
        budget: Option<Budgets>,
        /// For `If-Match`: it changes with everything of the organisation that can be changed.
        revision: String,
    }
}

impl OrgView {
    fn new(app: &App, org: Org, users: i64, keys: i64) -> Self {
        let Org { id, name, enabled, created_at, limits } = org;
        let revision = app.accounts.cookies.revision(&json!([name, enabled, limits]));
        Self {
            id,
            name,
            enabled,
            user_count: users,
            key_count: keys,
            created_at: created_at.into(),
            limits,
            budget: Budgets::new(&limits, app.allowances.spent(LimitHolder::Org(id))),
            revision,
        }
    }

    /// Reads the budgets again after a change was published: only from then on is counted what a new budget is for.
    fn published(mut self, app: &App) -> Self {
        self.budget = Budgets::new(&self.limits, app.allowances.spent(LimitHolder::Org(self.id)));
        self
    }
}

query! {
    pub(crate) struct OrgQuery {
        page: Page,
        sort: Sort<OrgColumn>,
        /// Part of the name.
        q: Option<Search>,
    }
}

pub(crate) const LIST: Operation = Operation::new("listOrganisations", "List organisations");

pub(crate) async fn list(
    app: State<App>,
    caller: Caller,
    Query(OrgQuery { page, sort, q }): Query<OrgQuery>,
) -> Outcome<Listed<OrgView>> {
    let filter = OrgFilter { only: caller.scope(), q: q.map(|it| it.0) };
    let (orgs, total) = app.store.read().await?.orgs(&filter, sort, page.limit, page.offset).await?;
    let views = orgs.into_iter().map(|it| OrgView::new(&app, it.org, it.n_users, it.n_keys)).collect();
    Ok(Listed(views, total))
}

query! {
    pub(crate) struct LookupQuery {
        page: Page,
        /// Part of the name.
        q: Option<Search>,
    }
}

view! {
    /// An organisation as select inputs show it.
    pub(crate) struct OrgName {
        id: OrgId,
        name: String,
    }
}

pub(crate) const LOOKUP: Operation = Operation::new("lookUpOrganisations", "Organisations for select inputs");

pub(crate) async fn lookup(
    app: State<App>,
    caller: Caller,
    Query(LookupQuery { page, q }): Query<LookupQuery>,
) -> Outcome<Listed<OrgName>> {
    let q = q.as_ref().map(|it| it.0.as_str());
    let orgs = app.store.read().await?.org_lookup(caller.scope(), q).await?;
    Ok(page.of(orgs.into_iter().map(|(id, name)| OrgName { id, name }).collect()))
}

form! {
    pub(crate) struct NewOrg {
        name: required Name<100>,
        limits: part LimitChange,
    }
}

pub(crate) const CREATE: Operation = Operation::new("createOrganisation", "Create an organisation")
    .about("The limits of an organisation cap those of its keys.")
    .errors(&[ErrorCode::NameConflict]);

pub(crate) async fn create(
    app: State<App>,
    caller: Caller,
    Body(NewOrg { name, limits }): Body<NewOrg>,
) -> Outcome<Created<OrgView>> {
    let limits = limits.apply(Limits::default());
    let mut tx = app.store.write().await?;
    let now = app.clock.now();
    let org = tx.insert_org(&name, now).await?;
    let change = OrgChange { limits: Some(limits), ..OrgChange::default() };
    let org = tx.update_org(org.id, &change).await?.ok_or_else(ApiError::internal)?;
    let view = OrgView::new(&app, org, 0, 0);
    tx.audit(&caller.did(Action::OrgCreate, view.id).created(record(&view)), now).await?;
    tx.commit().await?;
    if !limits.is_none() {
        app.signals.refresh.publish().await;
    }
    Ok(Created(view.published(&app)))
}

form! {
    pub(crate) struct ChangedOrg {
        name: given Name<100>,
        enabled: given bool,
        limits: part LimitChange,
    }
}

pub(crate) const CHANGE: Operation = Operation::new("changeOrganisation", "Change an organisation")
    .about(
        "Disabling an organisation ends the sessions and keys of all its users at once. Its limits cap those of its \
         keys.",
    )
    .errors(&[ErrorCode::NameConflict, ErrorCode::LastOwner]);

pub(crate) async fn change(
    app: State<App>,
    caller: Caller,
    Id(id): Id,
    seen: IfMatch,
    Body(ChangedOrg { name, enabled, limits }): Body<ChangedOrg>,
) -> Outcome<Json<OrgView>> {
    let mut tx = app.store.write().await?;
    // If two requests come at once, they must not remove the last two owners between them.
    tx.exclusive().await?;
    let before = tx.org(OrgId(id)).await?.ok_or_else(|| Parts::not_found("organisation", id))?;
    seen.check(&OrgView::new(&app, before.clone(), 0, 0).revision)?;
    let limits = (!limits.is_empty()).then(|| limits.apply(before.limits));
    let org = tx.update_org(before.id, &OrgChange { name, enabled, limits }).await?;
    let org = org.ok_or_else(|| Parts::not_found("organisation", id))?;
    if enabled == Some(false) {
        spare_higher_roles(&mut tx, &caller, org.id).await?;
    }
    if tx.owner_count_enabled().await? == 0 {
        return Err(last_owner("disabled"));
    }
    if !org.enabled {
        tx.delete_org_sessions(org.id).await?;
        tx.delete_org_tokens(org.id).await?;
    }
    let (counted, _) = tx.orgs(&OrgFilter { only: Some(org.id), q: None }, Sort::default(), 1, 0).await?;
    let (users, keys) = counted.first().map_or((0, 0), |it| (it.n_users, it.n_keys));
    let (old, view) = (OrgView::new(&app, before, users, keys), OrgView::new(&app, org, users, keys));
    let entry = caller.did(Action::OrgChange, id).changed(&record(&old), &record(&view));
    if entry.says_nothing() {
        tx.rollback().await?;
        return Ok(Json(old));
    }
    tx.audit(&entry, app.clock.now()).await?;
    tx.commit().await?;
    app.signals.refresh.publish().await;
    Ok(Json(view.published(&app)))
}

pub(crate) const DELETE: Operation = Operation::new("deleteOrganisation", "Delete an organisation")
    .about("Its users, sessions and keys are deleted with it. Its usage stays.")
    .errors(&[ErrorCode::LastOwner]);

pub(crate) async fn delete(app: State<App>, caller: Caller, Id(id): Id) -> Outcome<Deleted<OrgId>> {
    let mut tx = app.store.write().await?;
    tx.exclusive().await?;
    spare_higher_roles(&mut tx, &caller, OrgId(id)).await?;
    let (counted, _) = tx.orgs(&OrgFilter { only: Some(OrgId(id)), q: None }, Sort::default(), 1, 0).await?;
    let gone = counted.into_iter().next().ok_or_else(|| Parts::not_found("organisation", id))?;
    if !tx.delete_org(OrgId(id)).await? {
        return Err(Parts::not_found("organisation", id));
    }
    if tx.owner_count_enabled().await? == 0 {
        return Err(last_owner("deleted"));
    }
    let gone = OrgView::new(&app, gone.org, gone.n_users, gone.n_keys);
    tx.audit(&caller.did(Action::OrgDelete, id).deleted(record(&gone)), app.clock.now()).await?;
    tx.commit().await?;
    app.signals.refresh.publish().await;
    Ok(Deleted(OrgId(id)))
}

/// Refuses callers who may not touch an owner's account: they can't remove it with its organisation either.
async fn spare_higher_roles(tx: &mut Tx, caller: &Caller, org: OrgId) -> Outcome<()> {
    let owners = UserFilter { org_id: Some(org), role: Some(Role::Owner), q: None };
    if caller.role() < Role::Owner && tx.users(&owners, Sort::default(), 1, 0).await?.1 > 0 {
        let message = "an owner belongs to this organisation: only an owner may disable or delete it";
        return Err(Problem::new(ErrorCode::Forbidden, message));
    }
    Ok(())
}

fn last_owner(what: &str) -> Problem {
    Problem::new(
        ErrorCode::LastOwner,
        format!("the last owner belongs to this organisation; it can't be {what}"),
    )
}
