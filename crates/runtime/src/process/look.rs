//! Finds the engines that there are, and clears up after those whose supervisor was killed.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use gantry_domain::{Clock, model::lifecycle::InstanceId};
use parking_lot::Mutex;

use super::{
    record::{self, Dir, Exit, KILLED, Record, State},
    state::{KILL, Process, blocking},
    system,
};
use crate::{Found, RuntimeResult};

/// How often a list looks through the machine's processes for engines without a record. Such engines exist only if a
/// record was deleted by hand, and the search looks at every process.
const SWEEP_EVERY: Duration = Duration::from_mins(1);

/// The engine behind a name.
pub(super) enum Seen {
    Ours(Box<Look>),
    Foreign,
}

/// One of our engines, looked at.
pub(super) struct Look {
    pub(super) dir: Dir,
    pub(super) record: Record,
    pub(super) state: Option<State>,
    pub(super) held: bool,
}

impl Look {
    pub(super) fn found(self) -> Found {
        Dir::found(self.record, self.state.as_ref(), self.held)
    }
}

/// Looks at a directory. If `may` is true, an engine whose supervisor was killed is ended first. Blocking.
fn look(dir: Dir, owner: &str, may: bool) -> io::Result<Option<Seen>> {
    let record = match dir.record()? {
        Some(record) if record.owner == owner => record,
        Some(_) => return Ok(Some(Seen::Foreign)),
        None if dir.0.symlink_metadata().is_ok() => return Ok(Some(Seen::Foreign)),
        None => return Ok(None),
    };
    let held = dir.is_held()?;
    // Read after the lock: a supervisor notes the end before it releases the lock.
    let mut state = dir.state()?;
    if may
        && !held
        && let Some(state) = &mut state
        && state.exit.is_none()
    {
        bury(&dir, &record, state);
    }
    Ok(Some(Seen::Ours(Box::new(Look { dir, record, state, held }))))
}

/// Ends what is left of an engine whose supervisor died without noting an end. The engine died with it; its children
/// are ended here. Blocking.
fn bury(dir: &Dir, record: &Record, state: &mut State) {
    system::sweep(&record.owner, &record.id, state.session(), KILL);
    state.exit = Some(Exit { code: KILLED, out_of_memory: false, at: Clock::default().now() });
    // If the disk is full, the next look finds the same again.
    if let Err(error) = dir.write_state(state) {
        tracing::warn!(name = record.name, %error, "could not note down how an engine ended");
    }
}

/// Whether it is time to look for processes without a record. If so, the next time is one period later.
fn is_due(swept: &Mutex<Option<Instant>>) -> bool {
    let mut last = swept.lock();
    let due = last.is_none_or(|it| it.elapsed() >= SWEEP_EVERY);
    if due {
        *last = Some(Instant::now());
    }
    due
}

impl Process {
    pub(super) async fn look(&self, name: &str) -> RuntimeResult<Option<Seen>> {
        // Here the name becomes part of a path.
        if name.is_empty() || name.contains('/') || name.starts_with('.') {
            return Ok(None);
        }
        let (dir, owner) = (Dir::of(&self.options.dir, name), self.owner.instance.clone());
        let gate = Arc::clone(&self.gate);
        blocking("look at the engine", move || look(dir, &owner, gate.is_open())).await
    }

    pub(super) async fn looks(&self) -> RuntimeResult<Vec<Look>> {
        let (run, owner) = (self.options.dir.clone(), self.owner.instance.clone());
        let (swept, gate) = (Arc::clone(&self.swept), Arc::clone(&self.gate));
        blocking("list the engines", move || {
            // Processes are listed first: a record is made before its process, so a process without one has lost it.
            let marked = if gate.is_open() && is_due(&swept) { system::marked(&owner) } else { Vec::new() };
            let (mut looks, mut all_read) = (Vec::new(), true);
            for dir in record::all(&run)? {
                let odd = dir.is_odd();
                match look(dir, &owner, gate.is_open()) {
                    Ok(Some(Seen::Ours(it))) => looks.push(*it),
                    Ok(Some(Seen::Foreign) | None) => {}
                    // The directory's name is not an engine's, so the error concerns no known engine. But no engine may
                    // be reported as gone now.
                    Err(error) if odd => {
                        all_read = false;
                        tracing::warn!(%error, "something in the directory for engines can't be read");
                    }
                    Err(error) => return Err(error),
                }
            }
            for id in marked.into_iter().map(|it| it.id) {
                if all_read && !looks.iter().any(|it| it.record.id == id) {
                    system::sweep(&owner, &id, None, KILL);
                }
            }
            looks.sort_by_key(|it| (it.record.model_id, it.record.number, it.record.generation));
            Ok(looks)
        })
        .await
    }

    pub(super) async fn by_id(&self, id: &InstanceId) -> RuntimeResult<Option<Look>> {
        let (run, owner, id) = (self.options.dir.clone(), self.owner.instance.clone(), id.0.clone());
        let gate = Arc::clone(&self.gate);
        blocking("look for the engine", move || {
            let mut unread = None;
            for dir in record::all(&run)? {
                let is_it = match dir.record() {
                    Ok(record) => record.is_some_and(|it| it.id == id),
                    Err(error) if dir.is_odd() => {
                        tracing::debug!(%error, "no engine");
                        false
                    }
                    // It may be the engine that is looked for, if no other one is.
                    Err(error) => {
                        unread = Some(error);
                        false
                    }
                };
                if is_it && let Some(Seen::Ours(it)) = look(dir, &owner, gate.is_open())? {
                    return Ok(Some(*it));
                }
            }
            unread.map_or(Ok(None), Err)
        })
        .await
    }
}
