//! `POST /auth/password`.

use axum::{Json, extract::State, response::IntoResponse};
use gantry_domain::{ErrorCode, audit::Action};
use gantry_store::UserChange;
use serde_json::json;

use crate::{
    App,
    error::{Outcome, Problem},
    extract::{Fields, Object},
    password,
    policy::{self, Caller},
};

/// Change the own password
///
/// Ends all other sessions of the user.
pub(crate) async fn change(app: State<App>, caller: Caller, body: Object) -> Outcome<impl IntoResponse> {
    let mut fields = Fields::new(body);
    let current = fields.required("current_password", password::GIVEN, password::given);
    let new = fields.required("new_password", password::ACCEPTABLE, password::acceptable);
    fields.finish()?;
    let (Some(current), Some(new)) = (current, new) else {
        return Err(Problem::new(ErrorCode::InvalidCredentials, "the current password is wrong"));
    };
    // Someone at an unlocked screen may guess too.
    let user = caller.user.id;
    app.guesses.begin(user, app.steady.now())?;
    match app.passwords.verify(&current, Some(&caller.user.password_hash)).await {
        Ok(true) => app.guesses.right(user),
        Ok(false) => {
            app.guesses.wrong(user, app.steady.now());
            return Err(Problem::new(ErrorCode::InvalidCredentials, "the current password is wrong"));
        }
        Err(error) => {
            app.guesses.undecided(user);
            return Err(error.into());
        }
    }
    let password_hash = Some(app.passwords.hash(&new).await?);
    let mut tx = app.store.write().await?;
    // Hashing takes its time. Whoever set another password or ended this session meanwhile has the last word.
    tx.exclusive().await?;
    let now_is = tx.session(&caller.session).await?.map(|(_, user, _)| user.password_hash);
    if now_is.as_ref() != Some(&caller.user.password_hash) {
        return Err(policy::unauthenticated());
    }
    tx.update_user(caller.user.id, &UserChange { password_hash, ..UserChange::default() }).await?;
    tx.delete_user_sessions(caller.user.id, Some(caller.session)).await?;
    tx.audit(&caller.did(Action::PasswordChange, caller.user.id), app.clock.now()).await?;
    tx.commit().await?;
    app.refresh.publish().await;
    Ok(Json(json!({ "status": "ok" })))
}
