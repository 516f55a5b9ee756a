//! `POST /auth/password`.

use axum::{extract::State, http::header::SET_COOKIE};
use gantry_domain::{ApiError, ErrorCode, audit::Action};
use gantry_store::UserChange;

use super::WithCookie;
use crate::{
    App,
    caller::{self, Caller},
    error::{Outcome, Problem},
    operation::{Body, Done, Operation, form},
    password::{GivenPassword, NewPassword},
};

form! {
    pub(crate) struct PasswordForm {
        current_password: required GivenPassword,
        new_password: required NewPassword,
    }
}

pub(crate) const CHANGE: Operation = Operation::new("changeOwnPassword", "Change your own password")
    .about("All sessions of the user end; the answer sets the cookie of a new one.")
    .errors(&[ErrorCode::InvalidCredentials, ErrorCode::TooManyAttempts]);

pub(crate) async fn change(
    app: State<App>,
    caller: Caller,
    Body(PasswordForm { current_password: current, new_password: new }): Body<PasswordForm>,
) -> Outcome<WithCookie<Done>> {
    // Someone at an unlocked screen may guess too.
    let user = caller.user.id;
    app.accounts.guesses.begin(user, app.steady.now())?;
    let checked = async {
        let turn = app.accounts.passwords.turn(user).await?;
        Ok((app.accounts.passwords.is_current(&current, &caller.user.password_hash).await?, turn))
    };
    let checked: Result<_, ApiError> = checked.await;
    let _turn = match checked {
        Ok((true, turn)) => {
            app.accounts.guesses.right(user);
            turn
        }
        Ok((false, _)) => {
            app.accounts.guesses.wrong(user, app.steady.now());
            return Err(Problem::new(ErrorCode::InvalidCredentials, "the current password is wrong"));
        }
        Err(error) => {
            app.accounts.guesses.undecided(user);
            return Err(error.into());
        }
    };
    let password_hash = Some(app.accounts.passwords.hash(&new).await?);
    let mut tx = app.store.write().await?;
    // Hashing takes its time. If another password was set or this session was ended meanwhile, that counts, and this
    // change does not.
    tx.exclusive().await?;
    let now_is = tx.session(&caller.session()?).await?.map(|(_, user, _)| user.password_hash);
    if now_is.as_ref() != Some(&caller.user.password_hash) {
        return Err(caller::sign_in_first());
    }
    tx.update_user(caller.user.id, &UserChange { password_hash, ..UserChange::default() }).await?;
    // This session ends too: somebody may have its cookie, which may be why the password is changed.
    let now = app.clock.now();
    tx.delete_user_sessions(caller.user.id, None).await?;
    let (session, value) = app.accounts.cookies.issue(caller.user.id, now).ok_or_else(ApiError::internal)?;
    tx.insert_session(&session).await?;
    tx.audit(&caller.did(Action::PasswordChange, caller.user.id), now).await?;
    tx.commit().await?;
    app.signals.refresh.publish().await;
    let cookie = app.accounts.cookies.header(&value).map(|value| [(SET_COOKIE, value)]);
    Ok((cookie, Done))
}
