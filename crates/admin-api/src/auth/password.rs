//! `POST /auth/password`.

use axum::{Json, extract::State, http::header::SET_COOKIE, response::IntoResponse};
use gantry_domain::{ApiError, ErrorCode, audit::Action};
use gantry_store::UserChange;
use serde_json::json;

use crate::{
    App,
    error::{Outcome, Problem},
    operation::{Fields, Object},
    password,
    policy::{self, Caller},
};

/// Change the own password
///
/// Ends all sessions of the user; the answer sets the cookie of a new one.
pub(crate) async fn change(app: State<App>, caller: Caller, body: Object) -> Outcome<impl IntoResponse> {
    let mut fields = Fields::new(body);
    let current = fields.typed::<password::GivenPassword>("current_password").required();
    let new = fields.typed::<password::NewPassword>("new_password").required();
    fields.finish()?;
    let (Some(current), Some(new)) = (current, new) else {
        return Err(Problem::new(ErrorCode::InvalidCredentials, "the current password is wrong"));
    };
    // Someone at an unlocked screen may guess too.
    let user = caller.user.id;
    app.guesses.begin(user, app.steady.now())?;
    let checked = async {
        let turn = app.passwords.turn(user).await?;
        Ok((app.passwords.is_current(&current, &caller.user.password_hash).await?, turn))
    };
    let checked: Result<_, ApiError> = checked.await;
    let _turn = match checked {
        Ok((true, turn)) => {
            app.guesses.right(user);
            turn
        }
        Ok((false, _)) => {
            app.guesses.wrong(user, app.steady.now());
            return Err(Problem::new(ErrorCode::InvalidCredentials, "the current password is wrong"));
        }
        Err(error) => {
            app.guesses.undecided(user);
            return Err(error.into());
        }
    };
    let password_hash = Some(app.passwords.hash(&new).await?);
    let mut tx = app.store.write().await?;
    // Hashing takes its time. If another password was set or this session was ended meanwhile, that counts, and this
    // change does not.
    tx.exclusive().await?;
    let now_is = tx.session(&caller.session()?).await?.map(|(_, user, _)| user.password_hash);
    if now_is.as_ref() != Some(&caller.user.password_hash) {
        return Err(policy::sign_in_first());
    }
    tx.update_user(caller.user.id, &UserChange { password_hash, ..UserChange::default() }).await?;
    // This session ends too: somebody may have its cookie, which may be why the password is changed.
    let now = app.clock.now();
    tx.delete_user_sessions(caller.user.id, None).await?;
    let (session, value) = app.cookies.issue(caller.user.id, now).ok_or_else(ApiError::internal)?;
    tx.insert_session(&session).await?;
    tx.audit(&caller.did(Action::PasswordChange, caller.user.id), now).await?;
    tx.commit().await?;
    app.refresh.publish().await;
    let cookie = app.cookies.header(&value).map(|value| [(SET_COOKIE, value)]);
    Ok((cookie, Json(json!({ "status": "ok" }))))
}
