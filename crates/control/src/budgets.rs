//! Keeps the data plane's sums of spent budgets correct. The data plane counts what it serves itself. This module tells
//! it what the database has from before its start and from other gateways.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use gantry_dataplane::limits::Subject;
use gantry_domain::{KeyId, OrgId, UserId, limit::period::Period, usage::UsageRow};
use gantry_store::StoreResult;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::Control;

/// How often usage that other gateways have shipped is read.
const EVERY: Duration = Duration::from_secs(5);
/// After each reading the task rests for this many times the duration of the reading, so that it takes at most a small
/// part of the database's time.
const SPARE: u32 = 20;

/// Asks the database at start, whenever a budget is new, and every now and then.
pub async fn run(control: Arc<Control>, stop: CancellationToken) {
    loop {
        let begun = Instant::now();
        if let Err(error) = correct(&control).await {
            warn!(error = &error as &dyn std::error::Error, "what was spent of budgets could not be read");
        }
        let rest = begun.elapsed() * SPARE;
        let next = async {
            tokio::time::sleep(rest).await;
            let _ = tokio::time::timeout(EVERY, control.new_budgets.notified()).await;
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = next => {}
        }
    }
}

/// Brings the budgets of all keys, users and organisations in line with the database.
///
/// # Errors
/// The database does not answer; the data plane goes on counting by itself.
pub async fn correct(control: &Control) -> StoreResult<()> {
    let now = control.clock.now();
    let catalog = control.shared.catalog.load_full();
    let accounts = catalog.accounts.values().filter(|it| it.budgets().next().is_some());
    // Marked before the database is asked: usage that is shipped meanwhile then counts twice, rather than not at all.
    let marked: Vec<_> = accounts.map(|it| (it, it.state.spendings.marks(now))).collect();
    if marked.is_empty() {
        return Ok(());
    }
    let mut tx = control.store.read().await?;
    let [day, month] = [Period::Day, Period::Month].map(|it| it.start(now)..it.end(now));
    let rows = tx.tokens_spent(month, day).await?;
    drop(tx);
    let mut sums: HashMap<Subject, (u64, u64)> = HashMap::new();
    for row in rows {
        for holder in holders(row.key_id, row.user_id, row.org_id) {
            let sum = sums.entry(holder).or_default();
            sum.0 += u64::try_from(row.day).unwrap_or(0);
            sum.1 += u64::try_from(row.month).unwrap_or(0);
        }
    }
    let now = control.clock.now();
    for (account, marks) in marked {
        let (day, month) = sums.get(&account.subject).copied().unwrap_or_default();
        account.state.spendings.correct(&marks, day, month, now);
    }
    Ok(())
}

/// Returns the holders whose budgets a request counts against.
fn holders(key: Option<KeyId>, user: Option<UserId>, org: Option<OrgId>) -> impl Iterator<Item = Subject> {
    [key.map(Subject::Key), user.map(Subject::User), org.map(Subject::Org)].into_iter().flatten()
}

/// Notes that rows, `n_new` of them for the first time, have reached the database, and so will be in its next sum.
pub(crate) fn shipped(control: &Control, rows: &[UsageRow], n_new: u64) {
    let catalog = control.shared.catalog.load();
    if catalog.accounts.is_empty() {
        return;
    }
    if n_new != rows.len() as u64 {
        // A batch was repeated. It is not known which of its rows were noted before, but the database's sum is right in
        // any case.
        let now = control.clock.now();
        catalog.accounts.values().for_each(|it| it.state.spendings.rebase(now));
        control.new_budgets.notify_one();
        return;
    }
    for row in rows.iter().filter(|it| it.endpoint.runs_model()) {
        let tokens = u64::try_from(row.prompt_tokens.saturating_add(row.completion_tokens)).unwrap_or(0);
        for holder in holders(row.key_id, row.user_id, row.org_id) {
            if let Some(account) = catalog.accounts.get(&holder) {
                account.state.spendings.shipped(row.created_at, tokens);
            }
        }
    }
}
