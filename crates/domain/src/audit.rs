//! The audit log: who did what to which object, from where, and how each row is chained to the one before it.
//!
//! The chain: `hash = SHA-256("gantry audit 1\n" ‖ previous hash ‖ seq ‖ at ‖ fields)`. `seq` and `at` are 8 bytes, most
//! significant first. Each further field, in the order of [`AuditRow`], is one byte 0 if it is absent, else one byte 1,
//! the length in bytes as 8 bytes and the bytes themselves; numbers are decimal text. `before` and `after` are hashed as
//! the text that is stored. The row with `seq` 1 follows a hash of 32 zero bytes. Rows have no gaps.

mod shown;

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::{Timestamp, TokenId, UserId, words};

/// Longest user agent that a row keeps, in characters. The rest is cut off.
pub const MAX_USER_AGENT: usize = 200;

/// The hash before the first row.
pub const GENESIS: [u8; 32] = [0; 32];

// The words of these lists are part of the hash chain.
words! {
    /// What kind of actor did it.
    pub enum ActorType {
        /// A signed-in user.
        User = "user",
        /// Nobody had signed in.
        Anonymous = "anonymous",
        /// The gateway itself, because its settings say so, or anyone with write access to its database
        /// (`gantry owner`).
        Settings = "settings",
    }
}

words! {
    /// What kind of object it was done to.
    pub enum ObjectType {
        /// The object's id is the user's id.
        User = "user",
        /// The object's id is the organisation's id.
        Org = "org",
        /// The object's id is the key's id.
        Key = "key",
        /// A person's token for the admin API; the object's id is the token's id.
        Token = "token",
        /// The object's id is the model's id.
        Model = "model",
        /// The models base directory; the object's id is its path.
        BaseDir = "base_dir",
        /// An engine that runs elsewhere; the object's id is its served name.
        Registry = "registry",
        /// An archive of images; the object's id is its path.
        Image = "image",
        /// A deployment package; the object's id is its folder.
        Package = "package",
    }
}

/// Every kind of row, with its word and the kind of object that it is about.
macro_rules! actions {
    ($($(#[doc = $doc:literal])+ $name:ident = $word:literal on $object:ident;)+) => {
        words! {
            /// What was done.
            pub enum Action {
                $($(#[doc = $doc])+ $name = $word,)+
            }
        }

        impl Action {
            /// Returns what kind of object the action is done to.
            pub fn object_type(self) -> ObjectType {
                match self { $(Self::$name => ObjectType::$object,)+ }
            }

            /// Returns a one-line description for people.
            pub fn doc(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+).trim_ascii(),)+ }
            }
        }
    };
}

actions! {
    /// The first owner was made.
    OwnerBootstrap = "owner.bootstrap" on User;
    /// Somebody signed in.
    Login = "session.login" on User;
    /// A sign-in was refused. The name is kept only if there is such a user: people type passwords into the wrong field.
    LoginFailed = "session.login_failed" on User;
    /// Somebody signed out.
    Logout = "session.logout" on User;
    /// A user ended others of their own sessions, or one of them.
    SessionEnd = "session.end" on User;
    /// A user changed their own password, which ended their other sessions.
    PasswordChange = "user.password" on User;
    /// A one-time link was made with which a user sets their password.
    PasswordLink = "user.password_link" on User;
    /// A user set their password with a one-time link, which ended their other sessions and signed them in.
    PasswordLinkUse = "user.password_link_use" on User;
    /// A user was created.
    UserCreate = "user.create" on User;
    /// A user was changed.
    UserChange = "user.change" on User;
    /// A user was deleted.
    UserDelete = "user.delete" on User;
    /// An organisation was created.
    OrgCreate = "org.create" on Org;
    /// An organisation was changed.
    OrgChange = "org.change" on Org;
    /// An organisation was deleted, with its users and keys.
    OrgDelete = "org.delete" on Org;
    /// A key was created.
    KeyCreate = "key.create" on Key;
    /// A key was changed.
    KeyChange = "key.change" on Key;
    /// A key was revoked.
    KeyRevoke = "key.revoke" on Key;
    /// A user made a token for the admin API.
    TokenCreate = "token.create" on Token;
    /// A token for the admin API was revoked.
    TokenRevoke = "token.revoke" on Token;
    /// A model was created.
    ModelCreate = "model.create" on Model;
    /// A model's record was changed.
    ModelChange = "model.change" on Model;
    /// A model was deleted.
    ModelDelete = "model.delete" on Model;
    /// A model was told to start.
    ModelStart = "model.start" on Model;
    /// A model was told to stop.
    ModelStop = "model.stop" on Model;
    /// A model's settings were applied.
    ModelApply = "model.apply" on Model;
    /// The models base directory was chosen.
    BaseDirChange = "base_dir.change" on BaseDir;
    /// An engine that runs elsewhere was added or replaced.
    RegistryAdd = "registry.add" on Registry;
    /// An engine that runs elsewhere was removed.
    RegistryRemove = "registry.remove" on Registry;
    /// Images were loaded from a file.
    ImageLoad = "image.load" on Image;
    /// A deployment package was to be written.
    PackageExport = "package.export" on Package;
    /// Images, weights or models were to be taken from a deployment package.
    PackageImport = "package.import" on Package;
    /// The database was to be replaced by a dump.
    DatabaseRestore = "database.restore" on Package;
}

/// Who did it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Actor {
    /// A signed-in user.
    User {
        id: UserId,
        /// The user name at the time of the action.
        username: String,
    },
    /// A caller that was not signed in.
    Anonymous,
    /// The gateway itself, because its settings say so, or anyone with write access to its database.
    Settings,
}

impl Actor {
    /// Returns the word for this kind of actor.
    pub fn kind(&self) -> ActorType {
        match self {
            Self::User { .. } => ActorType::User,
            Self::Anonymous => ActorType::Anonymous,
            Self::Settings => ActorType::Settings,
        }
    }
}

/// Where a request came from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// The client's address, with trusted proxies taken into account.
    pub ip: Option<String>,
    pub request_id: Option<String>,
    /// At most [`MAX_USER_AGENT`] characters.
    pub user_agent: Option<String>,
    /// The token that was used instead of a session; the row keeps it under [`VIA_TOKEN`].
    pub token: Option<ViaToken>,
}

/// A token of a user that acted for the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ViaToken {
    pub id: TokenId,
    /// The first characters of the token.
    pub prefix: String,
}

/// The field in a row's `after` that names the token that acted. It is there because a row's columns are part of the
/// hash chain and can't be extended.
pub const VIA_TOKEN: &str = "via_token";

/// A row to be written.
#[derive(Debug, Clone)]
pub struct AuditEntry {
    pub actor: Actor,
    pub action: Action,
    /// The object's id. Empty if the object is unknown, as after a sign-in with a user name that does not exist.
    pub object_id: String,
    /// The old values of the fields that changed, without secrets.
    pub before: Option<Value>,
    /// The new values of the fields that changed, without secrets.
    pub after: Option<Value>,
    pub origin: Origin,
}

impl AuditEntry {
    /// Makes an entry without any fields of the object.
    pub fn new(actor: Actor, origin: Origin, action: Action, object_id: impl fmt::Display) -> Self {
        Self { actor, action, object_id: object_id.to_string(), before: None, after: None, origin }
    }

    /// Records the new object with all its fields.
    #[must_use]
    pub fn created(self, after: Value) -> Self {
        Self { after: Some(after), ..self }
    }

    /// Records the deleted object with all its fields.
    #[must_use]
    pub fn deleted(self, before: Value) -> Self {
        Self { before: Some(before), ..self }
    }

    /// Records the fields that differ.
    #[must_use]
    pub fn changed(self, before: &Value, after: &Value) -> Self {
        let (before, after) = changed(before, after);
        Self { before: Some(before), after: Some(after), ..self }
    }

    /// Whether the entry is a change that left every field as it was, so that there is nothing to record.
    pub fn says_nothing(&self) -> bool {
        let empty =
            |it: &Option<Value>| it.as_ref().is_some_and(|it| it.as_object().is_some_and(Map::is_empty));
        empty(&self.before) && empty(&self.after)
    }

    /// Returns `after` as it is stored: with the token that acted, if there was one.
    pub fn stored_after(&self) -> Option<Value> {
        let Some(token) = &self.origin.token else { return self.after.clone() };
        let after = self.clone().noting(VIA_TOKEN, json!(token));
        after.after
    }

    /// Adds a fact that is not one of the object's fields, such as that a password was changed.
    #[must_use]
    pub fn noting(mut self, name: &str, what: impl Into<Value>) -> Self {
        let after = self.after.get_or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(map) = after {
            map.insert(name.to_owned(), what.into());
        }
        self
    }
}

/// A row as it is stored, and as API answers and exported files show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRow {
    /// Counts up without gaps.
    pub seq: i64,
    #[serde(with = "shown::time")]
    pub at: Timestamp,
    pub actor_type: ActorType,
    pub actor_id: Option<i64>,
    /// The actor's name at the time of the action.
    pub actor: Option<String>,
    /// The word of an [`Action`], perhaps of one that no longer exists: rows outlive versions of the gateway.
    pub action: String,
    pub object_type: ObjectType,
    pub object_id: String,
    /// JSON.
    #[serde(with = "shown::json")]
    pub before: Option<String>,
    /// JSON.
    #[serde(with = "shown::json")]
    pub after: Option<String>,
    pub ip: Option<String>,
    pub request_id: Option<String>,
    pub user_agent: Option<String>,
    /// Hash of the row before this one.
    #[serde(with = "shown::hash")]
    pub prev_hash: [u8; 32],
    /// SHA-256.
    #[serde(with = "shown::hash")]
    pub hash: [u8; 32],
}

impl AuditRow {
    /// Computes what `hash` must be.
    pub fn expected_hash(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(b"gantry audit 1\n");
        hash.update(self.prev_hash);
        hash.update(self.seq.to_be_bytes());
        hash.update(self.at.0.to_be_bytes());
        let actor_id = self.actor_id.map(|it| it.to_string());
        for field in [
            Some(self.actor_type.as_str()),
            actor_id.as_deref(),
            self.actor.as_deref(),
            Some(self.action.as_str()),
            Some(self.object_type.as_str()),
            Some(self.object_id.as_str()),
            self.before.as_deref(),
            self.after.as_deref(),
            self.ip.as_deref(),
            self.request_id.as_deref(),
            self.user_agent.as_deref(),
        ] {
            match field {
                None => hash.update([0]),
                Some(text) => {
                    hash.update([1]);
                    hash.update((text.len() as u64).to_be_bytes());
                    hash.update(text.as_bytes());
                }
            }
        }
        hash.finalize().into()
    }
}

/// Number and hash of a row: where a chain begins, and where it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    pub seq: i64,
    pub hash: [u8; 32],
}

/// Why a chain is broken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// A number is left out.
    #[error("row {missing} is missing (after it comes row {found})")]
    Gap { missing: i64, found: i64 },
    /// A row's hash does not follow from the row and the one before.
    #[error("row {0} was changed, or the one before it was: its hash does not fit")]
    Hash(i64),
    /// A column holds a word that this version does not know.
    #[error("row {row} was changed: its {what} is none")]
    Word { row: i64, what: &'static str },
    /// Rows are missing at the end.
    #[error("the log ends at row {found}, but {wanted} rows were written")]
    Cut { found: i64, wanted: i64 },
    /// The last row is another one than was written last.
    #[error("the last row, {0}, is not the one that was written last")]
    Head(i64),
}

/// Checks a chain row by row, oldest first.
#[derive(Debug, Clone, Copy)]
pub struct Chain {
    last: Link,
    count: u64,
}

impl Chain {
    /// Starts a check of the rows that follow `anchor`.
    pub fn after(anchor: Link) -> Self {
        Self { last: anchor, count: 0 }
    }

    /// Returns the last row that was checked, or the anchor.
    pub fn last(&self) -> Link {
        self.last
    }

    /// Returns how many rows were checked so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Checks one more row.
    ///
    /// # Errors
    /// The row is not the one that comes next.
    pub fn take(&mut self, row: &AuditRow) -> Result<(), Broken> {
        let next = self.last.seq.saturating_add(1);
        if row.seq != next {
            return Err(Broken::Gap { missing: next, found: row.seq });
        }
        if row.prev_hash != self.last.hash || row.expected_hash() != row.hash {
            return Err(Broken::Hash(row.seq));
        }
        self.last = Link { seq: row.seq, hash: row.hash };
        self.count += 1;
        Ok(())
    }

    /// Checks that the chain ends at `head`.
    ///
    /// # Errors
    /// `head` is not the last row.
    pub fn end(&self, head: Link) -> Result<(), Broken> {
        if self.last.seq != head.seq {
            return Err(Broken::Cut { found: self.last.seq, wanted: head.seq });
        }
        if self.last.hash == head.hash { Ok(()) } else { Err(Broken::Head(head.seq)) }
    }
}

/// Returns the fields in which two objects differ: the old values and the new ones. A field that only one object has
/// counts as different.
pub fn changed(before: &Value, after: &Value) -> (Value, Value) {
    let empty = Map::new();
    let (old, new) = (before.as_object().unwrap_or(&empty), after.as_object().unwrap_or(&empty));
    let only = |of: &Map<String, Value>, other: &Map<String, Value>| {
        let differs = of.iter().filter(|(name, value)| other.get(*name) != Some(*value));
        Value::Object(differs.map(|(name, value)| (name.clone(), value.clone())).collect())
    };
    (only(old, new), only(new, old))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(seq: i64, previous: &[u8; 32]) -> AuditRow {
        let mut row = AuditRow {
            seq,
            at: Timestamp(1_795_219_804_123),
            actor_type: ActorType::User,
            actor_id: Some(7),
            actor: Some("ann".to_owned()),
            action: "key.create".to_owned(),
            object_type: ObjectType::Key,
            object_id: "3".to_owned(),
            before: None,
            after: Some("{\"name\":\"x\"}".to_owned()),
            ip: Some("::1".to_owned()),
            request_id: Some("r".to_owned()),
            user_agent: None,
            prev_hash: *previous,
            hash: GENESIS,
        };
        row.hash = row.expected_hash();
        row
    }

    #[test]
    fn the_first_row_has_a_hash_that_anybody_can_compute() {
        // Computed with Python: sha256(b"gantry audit 1\n" + bytes(32) + pack(">qq", 1, 1795219804123) + fields); the
        // comment at the top of this file describes the format.
        let mut bytes = b"gantry audit 1\n".to_vec();
        bytes.extend([0; 32]);
        bytes.extend(1_i64.to_be_bytes());
        bytes.extend(1_795_219_804_123_i64.to_be_bytes());
        for field in ["user", "7", "ann", "key.create", "key", "3"] {
            bytes.push(1);
            bytes.extend((field.len() as u64).to_be_bytes());
            bytes.extend(field.as_bytes());
        }
        bytes.push(0);
        for field in ["{\"name\":\"x\"}", "::1", "r"] {
            bytes.push(1);
            bytes.extend((field.len() as u64).to_be_bytes());
            bytes.extend(field.as_bytes());
        }
        bytes.push(0);
        assert_eq!(row(1, &GENESIS).hash, <[u8; 32]>::from(Sha256::digest(&bytes)));
    }

    /// These rows are as the first versions wrote them; their hashes were computed by another program. Their bytes must
    /// stay the same, whatever types the fields get later.
    #[test]
    fn rows_of_all_versions_hold() {
        let golden = include_str!("audit/golden.jsonl");
        let mut chain = Chain::after(Link { seq: 0, hash: GENESIS });
        for line in golden.lines() {
            let row: AuditRow = serde_json::from_str(line).unwrap();
            chain.take(&row).unwrap();
            assert_eq!(serde_json::to_string(&row).unwrap(), line);
        }
        assert_eq!(chain.count(), 4);
        let unknown =
            golden.lines().next().unwrap().replace("\"object_type\":\"user\"", "\"object_type\":\"usr\"");
        let said = serde_json::from_str::<AuditRow>(&unknown).unwrap_err().to_string();
        assert!(said.contains("unknown variant `usr`"), "{said}");
    }

    #[test]
    fn no_field_can_be_changed_or_moved_into_its_neighbour() {
        let good = row(1, &GENESIS);
        let edits: [fn(&mut AuditRow); 13] = [
            |it| it.prev_hash[3] = 1,
            |it| it.at.0 += 1,
            |it| it.actor_type = ActorType::Settings,
            |it| it.actor_id = None,
            |it| it.actor = Some("bob".to_owned()),
            |it| it.action = "key.revoke".to_owned(),
            |it| it.object_type = ObjectType::User,
            |it| (it.action, it.object_id) = ("key.create3".to_owned(), String::new()),
            |it| it.before = it.after.take(),
            |it| it.after = Some("{}".to_owned()),
            |it| it.ip = None,
            |it| (it.request_id, it.user_agent) = (None, Some("r".to_owned())),
            |it| it.user_agent = Some(String::new()),
        ];
        for (n, edit) in edits.iter().enumerate() {
            let mut bad = good.clone();
            edit(&mut bad);
            let mut chain = Chain::after(Link { seq: 0, hash: GENESIS });
            assert_eq!(chain.take(&bad), Err(Broken::Hash(1)), "edit {n}");
        }
    }

    #[test]
    fn a_chain_has_no_gap_and_an_end() {
        let anchor = Link { seq: 4, hash: [9; 32] };
        let five = row(5, &anchor.hash);
        let six = row(6, &five.hash);
        let mut chain = Chain::after(anchor);
        assert_eq!(chain.take(&six), Err(Broken::Gap { missing: 5, found: 6 }));
        chain.take(&five).unwrap();
        let head = Link { seq: 6, hash: six.hash };
        assert_eq!(chain.end(head), Err(Broken::Cut { found: 5, wanted: 6 }));
        chain.take(&six).unwrap();
        assert_eq!((chain.count(), chain.end(head)), (2, Ok(())));
        assert_eq!(chain.end(Link { seq: 6, hash: [1; 32] }), Err(Broken::Head(6)));
    }

    #[test]
    fn only_what_differs_is_kept() {
        let (old, new) =
            changed(&json!({"a": 1, "b": [1], "gone": true}), &json!({"a": 1, "b": [2], "new": null}));
        assert_eq!((old, new), (json!({"b": [1], "gone": true}), json!({"b": [2], "new": null})));
    }
}
