//! Bounds the memory for the bodies of requests that people and their tools send, and for the answers that they read. Each
//! body is read as a whole before its handler runs, and a client that holds back the last byte keeps the body in memory; so
//! does a client that does not read its answer. Without a bound, there could be as many of them in memory as there are
//! connections.

use std::{collections::HashMap, sync::Arc};

use gantry_domain::{ApiError, ErrorCode, Role, UserId};
use parking_lot::{Mutex, MutexGuard};

/// Bytes of each body that are not counted: nearly all bodies are smaller, and lie in the buffer of their connection
/// anyway.
const FREE: usize = 16 << 10;
/// Most bytes of all bodies together, if the gateway may have eight times as much memory. A user gets a quarter of them: four of the largest size,
/// as a page with four models side by side sends them.
const ALL: usize = 128 << 20;
/// Bodies of up to this size get room when others have taken a half of it; administrators when they have taken three
/// quarters. So nobody's large bodies keep others from their chats, nor administrators from their work.
const SMALL: usize = 256 << 10;
/// Seconds after which a refused client may try again: bodies come and go within moments.
const RETRY_AFTER_SEC: u64 = 1;

/// Counts how much of the memory is taken. Clones share the count.
#[derive(Debug, Clone)]
pub struct BodyRoom {
    taken: Arc<Mutex<Taken>>,
    /// Most bytes of all bodies.
    all: usize,
    words: Words,
}

/// What its refusals say.
#[derive(Debug, Clone, Copy)]
struct Words {
    own: &'static str,
    all: &'static str,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_user: HashMap<UserId, usize>,
}

/// The memory that one body takes, in bytes. Dropping it frees the memory.
#[derive(Debug)]
pub(crate) struct Room {
    of: BodyRoom,
    /// `None` if nobody is signed in: such bodies are not counted, since they are names and passwords, which are small.
    user: Option<(UserId, Role)>,
    taken: usize,
}

impl BodyRoom {
    /// Room for the bodies of requests: at most `most` bytes.
    pub fn of_requests(most: usize) -> Self {
        Self::with(
            most,
            Words {
                own: "the bodies that you send at the same time are too many or too large",
                all: "the gateway's memory for request bodies is full",
            },
        )
    }

    /// Room for answers: at most `most` bytes.
    pub fn of_answers(most: usize) -> Self {
        Self::with(
            most,
            Words {
                own: "the answers that you read at the same time are too many or too large",
                all: "the gateway's memory for answers is full",
            },
        )
    }

    fn with(most: usize, words: Words) -> Self {
        Self { taken: Arc::default(), all: most.min(ALL), words }
    }

    pub(crate) fn room(&self, user: Option<(UserId, Role)>) -> Room {
        Room { of: self.clone(), user, taken: 0 }
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock()
    }

    /// Returns how much all bodies together may take for one of this length to get room.
    fn share(&self, role: Role, length: usize) -> usize {
        match role {
            Role::Admin | Role::Owner => self.all,
            Role::User | Role::OrgAdmin if length <= SMALL => self.all / 4 * 3,
            Role::User | Role::OrgAdmin => self.all / 2,
        }
    }
}

impl Room {
    /// Whether nothing is counted.
    pub(crate) fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// Counts the body as having `length` bytes by now.
    ///
    /// # Errors
    /// 503 `request_memory_full`; what it took is free again.
    pub(crate) fn grow(&mut self, length: usize) -> Result<(), ApiError> {
        let (Some((user, role)), more) = (self.user, length.saturating_sub(FREE).saturating_sub(self.taken))
        else {
            return Ok(());
        };
        if more == 0 {
            return Ok(());
        }
        let mut taken = self.of.lock();
        let own = taken.by_user.get(&user).copied().unwrap_or_default();
        let message = if own + more > self.of.all / 4 {
            self.of.words.own
        } else if taken.all + more > self.of.share(role, length) {
            self.of.words.all
        } else {
            taken.all += more;
            taken.by_user.insert(user, own + more);
            self.taken += more;
            return Ok(());
        };
        drop(taken);
        self.give_back();
        Err(ApiError::new(ErrorCode::RequestMemoryFull, message).retry_after(RETRY_AFTER_SEC))
    }

    fn give_back(&mut self) {
        let n = std::mem::take(&mut self.taken);
        let Some((user, _)) = self.user.filter(|_| n > 0) else { return };
        let mut taken = self.of.lock();
        taken.all = taken.all.saturating_sub(n);
        if let Some(own) = taken.by_user.get_mut(&user) {
            *own = own.saturating_sub(n);
            if *own == 0 {
                taken.by_user.remove(&user);
            }
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_leaves_room_for_others_and_all_is_given_back() {
        let all = BodyRoom::of_requests(usize::MAX);
        let (mut rooms, large) = (Vec::new(), 12 << 20);
        let mut fill = |user| {
            let fits = |room: &mut Room| room.grow(large / 2).and_then(|()| room.grow(large)).is_ok();
            let mut room = all.room(Some((UserId(user), Role::User)));
            let fit = fits(&mut room);
            rooms.push(room);
            fit
        };
        assert_eq!([1; 4].map(&mut fill), [true, true, false, false]);
        for user in 2..=5 {
            fill(user);
            fill(user);
        }
        assert!(!fill(99), "they are all there is");
        assert!(all.lock().all <= ALL / 2);
        // Small bodies and administrators have a part of their own.
        let mut small = all.room(Some((UserId(98), Role::User)));
        small.grow(SMALL).unwrap();
        let mut admin = all.room(Some((UserId(97), Role::Admin)));
        admin.grow(large).unwrap();
        rooms.clear();
        drop((small, admin));
        let taken = all.lock();
        assert_eq!((taken.all, taken.by_user.len()), (0, 0));
    }
}
