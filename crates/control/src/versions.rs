//! Finds out which version of its engine an image holds. Its tag says it, or its label, or else the image itself, which
//! is asked once and then remembered by its content id.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use gantry_domain::{engine::EngineVersion, model::EngineKind};
use gantry_runtime::{ImageInfo, ImageProbe, RuntimeError};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::Control;

/// Longest time for one query of an image: importing vLLM takes a minute or two on a slow disk.
const ASK: Duration = Duration::from_mins(3);
/// Longest time that a start waits for the version. A start with options of the wrong version fails at once, so waiting
/// is the better bet.
pub(crate) const START_WAITS: Wait = Wait::OnceAsked(Duration::from_mins(4));
/// Longest time that a preview waits for the version: a person is looking at a form.
pub(crate) const PREVIEW_WAITS: Wait = Wait::InAll(Duration::from_secs(3));
/// Most images that wait to be asked; more are refused until there is room.
const QUEUE: usize = 64;

type Image = (EngineKind, String);

/// How long to wait for an image that has to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Wait this long from the moment at which it is asked. Other images may come first; each of them takes a bounded
    /// time.
    OnceAsked(Duration),
    /// Wait this long in total.
    InAll(Duration),
}

/// What is known of images, and what is being found out.
pub struct Versions {
    known: Mutex<Known>,
    /// Queue of images to be asked, with the reference to ask by.
    wanted: mpsc::Sender<(Image, String)>,
    /// The image that is being asked now.
    asked: watch::Sender<Option<Image>>,
    /// Changes with every answer.
    answered: watch::Sender<u64>,
}

#[derive(Default)]
struct Known {
    /// Answers by content id, kept while this process lives.
    answers: HashMap<Image, Answer>,
    /// Images that are being asked or wait for it. Each is in it once, however many models start with it.
    pending: HashSet<Image>,
    /// Number of answers so far.
    n: u64,
}

#[derive(Debug, Clone, Copy)]
struct Answer {
    /// Number of this answer, counted over all answers.
    n: u64,
    /// `Unknown` if even the image could not say it, `None` if it could not be asked this time.
    version: Option<EngineVersion>,
}

/// The queue that [`run`] works off.
pub struct Requests(mpsc::Receiver<(Image, String)>);

impl Versions {
    /// Returns the known versions, and the requests for those that are not known yet.
    pub fn new() -> (Self, Requests) {
        let (wanted, requests) = mpsc::channel(QUEUE);
        let (asked, answered) = (watch::Sender::new(None), watch::Sender::new(0));
        (Self { known: Mutex::default(), wanted, asked, answered }, Requests(requests))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }

    fn get(&self, image: &Image) -> Option<EngineVersion> {
        self.known().answers.get(image)?.version
    }

    fn put(&self, image: Image, version: Option<EngineVersion>) {
        let mut known = self.known();
        known.n += 1;
        let answer = Answer { n: known.n, version };
        known.pending.remove(&image);
        known.answers.insert(image, answer);
        drop(known);
        self.answered.send_modify(|it| *it += 1);
    }

    /// Queues an image to be asked, and waits for the answer.
    async fn find(&self, key: Image, image: &str, wait: Wait) -> Finding {
        let unknown = EngineVersion::Unknown(key.0);
        let (mut asked, mut answered) = (self.asked.subscribe(), self.answered.subscribe());
        let Some(since) = self.request(&key, image) else {
            return Finding { version: unknown, pending: true };
        };
        let answer = async {
            loop {
                let said = self.known().answers.get(&key).copied();
                // An earlier failure is no answer to this request.
                match said.filter(|it| it.n > since || it.version.is_some()) {
                    Some(answer) => return answer.version.unwrap_or(unknown),
                    None if answered.changed().await.is_err() => return unknown,
                    None => {}
                }
            }
        };
        let too_long = async {
            let limit = match wait {
                Wait::InAll(limit) => limit,
                Wait::OnceAsked(limit) => {
                    // Its turn can't be missed: the answer is there then.
                    drop(asked.wait_for(|it| it.as_ref() == Some(&key)).await);
                    limit
                }
            };
            tokio::time::sleep(limit).await;
        };
        tokio::select! {
            biased;
            version = answer => Finding { version, pending: false },
            () = too_long => Finding { version: unknown, pending: true },
            // The task that asks is gone: the gateway is about to end.
            () = self.wanted.closed() => Finding { version: unknown, pending: true },
        }
    }

    /// Queues an image to be asked unless it is queued already. Returns how many answers there were before; `None` if
    /// too many images wait.
    fn request(&self, key: &Image, image: &str) -> Option<u64> {
        let mut known = self.known();
        let is_known = known.answers.get(key).is_some_and(|it| it.version.is_some());
        if !is_known && !known.pending.contains(key) {
            self.wanted.try_send((key.clone(), image.to_owned())).ok()?;
            known.pending.insert(key.clone());
        }
        Some(known.n)
    }

    /// Returns the next image to be asked, with the reference to ask by. It has its turn until this is called again.
    async fn next(&self, requests: &mut Requests) -> Option<(Image, String)> {
        self.asked.send_replace(None);
        let request = requests.0.recv().await?;
        self.asked.send_replace(Some(request.0.clone()));
        Some(request)
    }
}

/// What is known of an image's version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finding {
    pub version: EngineVersion,
    /// The image is being asked and has not answered yet.
    pub pending: bool,
}

impl Control {
    /// Returns the version of the engine in `image`. Waits for `wait` at most if the image has to be asked.
    pub(crate) async fn version(
        &self,
        engine: EngineKind,
        image: &str,
        info: Option<&ImageInfo>,
        wait: Wait,
    ) -> Finding {
        match self.version_unasked(engine, image, info).await {
            Ok(version) => Finding { version, pending: false },
            Err(key) => self.versions.find(key, image, wait).await,
        }
    }

    /// Returns the version without asking the image. The error is what would have to be asked.
    pub(crate) async fn version_unasked(
        &self,
        engine: EngineKind,
        image: &str,
        info: Option<&ImageInfo>,
    ) -> Result<EngineVersion, Image> {
        let label = info.and_then(|it| it.version_label.as_deref());
        // Among programs, only the simulator is named as an image is.
        let tagged = self.runtime.traits().runs_images || info.is_some_and(|it| it.simulator);
        let tag = tagged.then(|| EngineVersion::of_image(engine, image));
        let stated = tag
            .into_iter()
            .chain(label.map(|it| EngineVersion::parse(engine, it)))
            .find(|it| matches!(it, EngineVersion::Known(..)));
        if let Some(version) = stated {
            return Ok(version);
        }
        // Our simulator has the version that its label says. An image that is not on the machine can't be asked.
        let Some(info) = info.filter(|it| !it.simulator && !it.id.is_empty()) else {
            return Ok(EngineVersion::Unknown(engine));
        };
        let key = (engine, info.id.clone());
        if let Some(version) = self.versions.get(&key) {
            return Ok(version);
        }
        if let Some(version) = self.stored(&key).await {
            self.versions.put(key, Some(version));
            return Ok(version);
        }
        Err(key)
    }

    async fn stored(&self, (engine, id): &Image) -> Option<EngineVersion> {
        let read = async { self.store.read().await?.meta_get(&meta_key(*engine, id)).await };
        match read.await {
            Ok(text) => {
                let version = EngineVersion::parse(*engine, &text?);
                matches!(version, EngineVersion::Known(..)).then_some(version)
            }
            Err(error) => {
                warn!(%error, "what is known of an image could not be read");
                None
            }
        }
    }

    /// Asks the image: first for its version, then for its options.
    async fn ask(&self, engine: EngineKind, image: &str) -> Option<EngineVersion> {
        for (entrypoint, args) in EngineVersion::questions(engine) {
            match self.runtime.probe(&ImageProbe { image, entrypoint, args }, ASK).await {
                Ok(text) => {
                    let version = EngineVersion::of_output(engine, &text);
                    if matches!(version, EngineVersion::Known(..)) {
                        return Some(version);
                    }
                }
                // An image that did not answer in time gets no further query.
                Err(error @ RuntimeError::Timeout { .. }) => {
                    warn!(%error, image, "the image did not answer");
                    break;
                }
                // The gateway that supervises finds out when it starts the image, and stores it.
                Err(RuntimeError::NotSupervisor) => return None,
                Err(error) => {
                    warn!(%error, image, "the image could not be asked for its version");
                    return None;
                }
            }
        }
        Some(EngineVersion::Unknown(engine))
    }

    async fn learn(&self, key: Image, image: &str) {
        if let known @ Some(_) = self.versions.get(&key) {
            // It was read from the database meanwhile.
            self.versions.put(key, known);
            return;
        }
        let Some(version) = self.ask(key.0, image).await else {
            // Starts that wait go on without a version; the next one asks again.
            self.versions.put(key, None);
            return;
        };
        info!(image, %version, "the image was asked for the version of its engine");
        if matches!(version, EngineVersion::Known(..)) {
            let written = async {
                let mut tx = self.store.write().await?;
                tx.meta_set(&meta_key(key.0, &key.1), &version.to_string()).await?;
                tx.commit().await
            };
            if let Err(error) = written.await {
                warn!(%error, "the version of an image could not be stored");
            }
        }
        self.versions.put(key, Some(version));
    }
}

fn meta_key(engine: EngineKind, id: &str) -> String {
    format!("engine_version/{engine}/{id}")
}

/// Asks the images that were asked for, one after the other.
pub async fn run(control: std::sync::Arc<Control>, mut requests: Requests, stop: CancellationToken) {
    let asks = async {
        while let Some((key, image)) = control.versions.next(&mut requests).await {
            control.learn(key, &image).await;
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = asks => {}
    }
}

#[cfg(test)]
mod tests;
