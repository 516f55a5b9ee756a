//! The imaginary machine behind a [`Fake`](super::Fake).

use std::collections::{BTreeMap, BTreeSet};

use gantry_domain::{
    ModelId, Timestamp,
    engine::EngineAddress,
    model::lifecycle::{Instance, InstanceId, InstanceStatus},
};
use tokio::sync::broadcast::{Receiver, Sender, channel};

use super::archive;
use crate::{ContainerSpec, Found, ImageInfo, ImageProbe, Owner, RuntimeError, RuntimeResult};

const CHANNEL: usize = 1024;
/// Docker's random ports start here too.
const FIRST_PORT: u16 = 32768;

/// A call to a [`Runtime`](crate::Runtime).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    Info,
    List,
    Find,
    Launch,
    Stop,
    Remove,
    Logs,
    FollowLogs,
    Image,
    Pull,
    Save,
    Load,
    Probe,
    Events,
}

/// How the containers of a name behave.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Script {
    /// Ends with this code as soon as it is started.
    pub exits_at_once: Option<i64>,
    /// That end (or the next [`Fake::kill`](super::Fake::kill)) is reported as out of memory.
    pub out_of_memory: bool,
    /// It ignores a stop for the whole grace, and ends with 137.
    pub ignores_stop: bool,
    /// What it prints at start.
    pub prints: Vec<String>,
}

fn refused(action: &'static str, detail: String) -> RuntimeError {
    RuntimeError::Refused { action, detail }
}

#[derive(Default)]
pub(super) struct World {
    pub(super) images: BTreeMap<String, ImageInfo>,
    /// Containers by name.
    pub(super) containers: BTreeMap<String, Container>,
    /// Names that containers of other programs have.
    pub(super) foreign: BTreeSet<String>,
    /// What probes print, by image and last argument.
    pub(super) probes: BTreeMap<(String, String), Option<String>>,
    pub(super) scripts: BTreeMap<String, Script>,
    pub(super) calls: BTreeMap<Action, usize>,
    pub(super) launches: usize,
    pub(super) replaced_while_running: Vec<(i64, i64)>,
    faults: Vec<Fault>,
    down: Option<RuntimeError>,
    events: Option<Sender<(Owner, ModelId)>>,
    ports: u16,
    ids: u64,
}

pub(super) struct Container {
    pub(super) owner: Owner,
    pub(super) found: Found,
    lines: Vec<String>,
    /// `None` once it has ended: followers see the end of their stream.
    follow: Option<Sender<String>>,
}

struct Fault {
    action: Action,
    /// Number of the call, counted from the machine's beginning.
    call: usize,
    error: RuntimeError,
    /// If true, the work is done but its answer is lost.
    lost: bool,
}

impl World {
    pub(super) fn add_image(&mut self, reference: &str) {
        self.images.insert(reference.to_owned(), archive::added(reference));
    }

    pub(super) fn save(&self, references: &[String]) -> RuntimeResult<Vec<u8>> {
        let mut images = Vec::new();
        for reference in references {
            let info = self.images.get(reference);
            let info = info.ok_or_else(|| RuntimeError::ImageMissing { image: reference.clone() })?;
            images.push((reference.as_str(), info));
        }
        archive::write(&images).map_err(|error| refused("save the image", error.to_string()))
    }

    pub(super) fn load(&mut self, archive: &[u8]) -> RuntimeResult<Vec<String>> {
        let images = archive::read(archive)
            .ok_or_else(|| refused("load the image", "the file holds no image".to_owned()))?;
        let names = images.iter().map(|(reference, _)| reference.clone()).collect();
        self.images.extend(images);
        Ok(names)
    }

    pub(super) fn add_fault(&mut self, action: Action, n: usize, error: RuntimeError, lost: bool) {
        let call = self.calls.get(&action).copied().unwrap_or(0) + n;
        self.faults.push(Fault { action, call, error, lost });
    }

    pub(super) fn clear_faults(&mut self) {
        self.faults.clear();
    }

    pub(super) fn set_down(&mut self, error: Option<RuntimeError>) {
        self.down = error;
        self.events = None;
    }

    /// Counts a call. `Err`: the call fails. `Some`: it does its work, then fails with that error.
    pub(super) fn enter(&mut self, action: Action) -> RuntimeResult<Option<RuntimeError>> {
        let calls = self.calls.entry(action).or_default();
        *calls += 1;
        let call = *calls;
        if let Some(error) = &self.down {
            return Err(error.clone());
        }
        let due = self.faults.iter().position(|it| it.action == action && it.call == call);
        match due.map(|it| self.faults.remove(it)) {
            Some(Fault { error, lost: false, .. }) => Err(error),
            Some(Fault { error, .. }) => Ok(Some(error)),
            None => Ok(None),
        }
    }

    /// Returns what a program of an image prints; nothing unless a test set it. `None`: it does not end.
    pub(super) fn probe(&self, probe: &ImageProbe<'_>) -> RuntimeResult<Option<String>> {
        if !self.images.contains_key(probe.image) {
            return Err(RuntimeError::ImageMissing { image: probe.image.to_owned() });
        }
        let last = probe.args.last().copied().unwrap_or_default();
        let printed = self.probes.get(&(probe.image.to_owned(), last.to_owned()));
        Ok(printed.cloned().unwrap_or(Some(String::new())))
    }

    pub(super) fn launch(
        &mut self,
        spec: &ContainerSpec<'_>,
        owner: &Owner,
        now: Timestamp,
    ) -> RuntimeResult<InstanceId> {
        let other = self.containers.get(spec.name).is_some_and(|it| it.owner != *owner);
        if other || self.foreign.contains(spec.name) {
            return Err(RuntimeError::NameInUse { name: spec.name.to_owned() });
        }
        let old = self.containers.get(spec.name).map(|it| &it.found.instance);
        if let Some(old) = old.filter(|it| matches!(it.status, InstanceStatus::Running { .. })) {
            self.replaced_while_running.push((old.generation, spec.generation));
        }
        self.remove(spec.name);
        if !self.images.contains_key(&spec.launch.image) {
            return Err(RuntimeError::ImageMissing { image: spec.launch.image.clone() });
        }
        self.ids += 1;
        self.launches += 1;
        let id = InstanceId(format!("{:064x}", self.ids));
        let instance =
            Instance { id: id.clone(), generation: spec.generation, status: InstanceStatus::Created };
        let found = Found {
            model_id: spec.model_id,
            number: spec.number,
            name: spec.name.to_owned(),
            instance,
            spec_hash: spec.launch.spec_hash(),
            key_fingerprint: spec.key_fingerprint.to_owned(),
            started_at: None,
        };
        let container = Container { owner: owner.clone(), found, lines: Vec::new(), follow: None };
        self.containers.insert(spec.name.to_owned(), container);
        self.start(spec.name, now);
        Ok(id)
    }

    pub(super) fn start(&mut self, name: &str, now: Timestamp) {
        let port = FIRST_PORT + self.ports % (u16::MAX - FIRST_PORT);
        let script = self.scripts.get(name).cloned().unwrap_or_default();
        let Some(container) = self.containers.get_mut(name) else { return };
        self.ports += 1;
        container.found.started_at = Some(now);
        container.found.instance.status =
            InstanceStatus::Running { address: Some(EngineAddress::loopback(port)) };
        container.follow = Some(channel(CHANNEL).0);
        self.notify(name);
        script.prints.iter().for_each(|line| self.print(name, line));
        if let Some(code) = script.exits_at_once {
            self.end(name, code);
        }
    }

    pub(super) fn end(&mut self, name: &str, code: i64) {
        let out_of_memory = self.scripts.get(name).is_some_and(|it| it.out_of_memory);
        self.set_status(name, InstanceStatus::Exited { code, out_of_memory });
    }

    pub(super) fn set_status(&mut self, name: &str, status: InstanceStatus) {
        let Some(container) = self.containers.get_mut(name) else { return };
        if !matches!(status, InstanceStatus::Running { .. }) {
            container.follow = None;
        }
        container.found.instance.status = status;
        self.notify(name);
    }

    /// Stops the container. Returns its name if it ignores the stop.
    pub(super) fn stop(&mut self, id: &InstanceId) -> Option<String> {
        let name = self.name_of(id)?;
        let running = matches!(
            self.containers.get(&name).map(|it| &it.found.instance.status),
            Some(InstanceStatus::Running { .. })
        );
        if running && self.scripts.get(&name).is_some_and(|it| it.ignores_stop) {
            return Some(name);
        }
        if running {
            self.set_status(&name, InstanceStatus::Exited { code: 0, out_of_memory: false });
        }
        None
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.notify(name);
        self.containers.remove(name);
    }

    pub(super) fn print(&mut self, name: &str, line: &str) {
        let Some(container) = self.containers.get_mut(name) else { return };
        container.lines.push(line.to_owned());
        if let Some(follow) = &container.follow {
            // An error means only that there are no followers.
            let _ = follow.send(line.to_owned());
        }
    }

    pub(super) fn tail(&self, id: &InstanceId, tail: usize) -> Vec<String> {
        let Some(container) = self.by_id(id) else { return Vec::new() };
        container.lines[container.lines.len().saturating_sub(tail)..].to_vec()
    }

    pub(super) fn follow(&self, id: &InstanceId) -> Option<Receiver<String>> {
        Some(self.by_id(id)?.follow.as_ref()?.subscribe())
    }

    pub(super) fn events(&mut self) -> Receiver<(Owner, ModelId)> {
        self.events.get_or_insert_with(|| channel(CHANNEL).0).subscribe()
    }

    pub(super) fn owned(&self, owner: &Owner) -> Vec<Found> {
        let mut found: Vec<Found> =
            self.containers.values().filter(|it| it.owner == *owner).map(|it| it.found.clone()).collect();
        found.sort_by_key(|it| (it.model_id, it.number, it.instance.generation));
        found
    }

    pub(super) fn name_of(&self, id: &InstanceId) -> Option<String> {
        self.by_id(id).map(|it| it.found.name.clone())
    }

    fn by_id(&self, id: &InstanceId) -> Option<&Container> {
        self.containers.values().find(|it| it.found.instance.id == *id)
    }

    fn notify(&self, name: &str) {
        if let (Some(events), Some(container)) = (&self.events, self.containers.get(name)) {
            // An error means only that there are no listeners.
            let _ = events.send((container.owner.clone(), container.found.model_id));
        }
    }
}
