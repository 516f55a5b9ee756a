//! Sets a new password for an owner who lost theirs. It is for people who may write to the database: no signed-in user
//! can do it.

use gantry_domain::{
    ApiError, ErrorCode, Role, Timestamp,
    audit::{Action, Actor, AuditEntry, Origin},
    identity::User,
};
use gantry_store::{Sort, Store, Tx, UserChange, UserFilter};
use secrecy::SecretString;
use serde_json::json;

use crate::{error::Problem, password::Passwords};

/// Most owners that are looked at.
const MOST: i64 = 1000;

/// An owner whose password is about to be set. Nothing was changed yet.
#[derive(Debug, Clone)]
pub struct Lost {
    owner: User,
    /// Whether the owner and their organisation are enabled.
    pub may_sign_in: bool,
}

impl Lost {
    /// Finds the owner with this name or, without a name, the only owner there is.
    ///
    /// # Errors
    /// There is no such owner, or several and no name says which.
    pub async fn find(store: &Store, username: Option<&str>) -> Result<Self, Problem> {
        let mut tx = store.read().await?;
        let filter = UserFilter { role: Some(Role::Owner), ..UserFilter::default() };
        let (owners, _) = tx.users(&filter, Sort::default(), MOST, 0).await?;
        let mut owners: Vec<User> = owners.into_iter().map(|(user, _)| user).collect();
        let names = owners.iter().map(|it| format!("`{}`", it.username)).collect::<Vec<_>>().join(", ");
        let refuse = |why: String| Problem(ApiError::new(ErrorCode::NotFound, why));
        if owners.is_empty() {
            let why = "there is no owner yet: `gantry owner create NAME` makes the first one";
            return Err(refuse(why.to_owned()));
        }
        let owner = match username {
            Some(name) => {
                let found = tx.user_by_name(name).await?.filter(|it| it.role == Role::Owner);
                found.ok_or_else(|| refuse(format!("no owner is called `{name}`: the owners are {names}")))?
            }
            None if owners.len() == 1 => owners.remove(0),
            None => return Err(refuse(format!("there are several owners, say which: {names}"))),
        };
        let org_enabled = tx.org(owner.org_id).await?.is_some_and(|it| it.enabled);
        Ok(Self { may_sign_in: owner.enabled && org_enabled, owner })
    }

    /// Returns the name that the owner signs in with.
    pub fn username(&self) -> &str {
        &self.owner.username
    }

    /// Sets the owner's password, ends their sessions and writes the audit row, all in one transaction. A gateway that
    /// runs on the database ends the sessions within seconds. Returns how many sessions there were.
    ///
    /// # Errors
    /// The database refuses, or the owner was deleted meanwhile.
    pub async fn set(
        &self,
        store: &Store,
        passwords: &Passwords,
        password: &SecretString,
        (actor, origin): (Actor, Origin),
        now: Timestamp,
    ) -> Result<u64, Problem> {
        let password_hash = Some(passwords.hash(password).await?);
        let mut tx = store.write().await?;
        tx.exclusive().await?;
        let n_sessions = self.change(&mut tx, password_hash).await?;
        let nothing = json!({});
        let entry = AuditEntry::new(actor, origin, Action::UserChange, self.owner.id);
        let entry = entry.changed(&nothing, &nothing).noting("password_changed", true);
        tx.audit(&entry, now).await?;
        tx.commit().await?;
        Ok(n_sessions)
    }

    async fn change(&self, tx: &mut Tx, password_hash: Option<String>) -> Result<u64, Problem> {
        let gone = || Problem(ApiError::new(ErrorCode::NotFound, "the owner was deleted meanwhile"));
        tx.user(self.owner.id).await?.filter(|it| it.role == Role::Owner).ok_or_else(gone)?;
        tx.update_user(self.owner.id, &UserChange { password_hash, ..UserChange::default() }).await?;
        Ok(tx.delete_user_sessions(self.owner.id, None).await?)
    }
}
