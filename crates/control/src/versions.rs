//! Which version of its engine an image holds: its tag says it, or its label, or else the image itself, which is asked
//! once and then remembered by its content id.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use gantry_domain::{engine::EngineVersion, model::EngineKind};
use gantry_runtime::{ImageInfo, ImageProbe, RuntimeError};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::Control;

/// How long one question may take: importing vLLM takes a minute or two on a slow disk.
const ASK: Duration = Duration::from_mins(3);
/// What a start waits for it at most. A start with the wrong words fails at once, so waiting is the better bet.
pub(crate) const START_WAITS: Wait = Wait::OnceAsked(Duration::from_mins(4));
/// What a preview waits: somebody looks at a form.
pub(crate) const PREVIEW_WAITS: Wait = Wait::InAll(Duration::from_secs(3));
/// Images that wait to be asked; more are refused until there is room.
const QUEUE: usize = 64;

type Image = (EngineKind, String);

/// How long to wait for an image that has to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// So long from the moment at which it is asked. Others may come first; each of them takes a bounded time.
    OnceAsked(Duration),
    /// So long in all.
    InAll(Duration),
}

/// What is known of images, and what is being found out.
pub struct Versions {
    known: Mutex<Known>,
    /// Asked for, with the reference to ask by.
    wanted: mpsc::Sender<(Image, String)>,
    /// The one that is being asked.
    asked: watch::Sender<Option<Image>>,
    /// Changes with every answer.
    answered: watch::Sender<u64>,
}

#[derive(Default)]
struct Known {
    /// By content id, for this process.
    answers: HashMap<Image, Answer>,
    /// Images that are asked, or wait for it: each once, however many models start with it.
    pending: HashSet<Image>,
    /// Answers so far.
    n: u64,
}

#[derive(Debug, Clone, Copy)]
struct Answer {
    /// Which one of all it is.
    n: u64,
    /// `Unknown` where even the image could not tell, `None` where it could not be asked this time.
    version: Option<EngineVersion>,
}

/// What [`run`] works off.
pub struct Requests(mpsc::Receiver<(Image, String)>);

impl Versions {
    pub fn new() -> (Self, Requests) {
        let (wanted, requests) = mpsc::channel(QUEUE);
        let (asked, answered) = (watch::Sender::new(None), watch::Sender::new(0));
        (Self { known: Mutex::default(), wanted, asked, answered }, Requests(requests))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Has an image asked, and waits for the answer.
    async fn find(&self, key: Image, image: &str, wait: Wait) -> Finding {
        let unknown = EngineVersion::Unknown(key.0);
        let (mut asked, mut answered) = (self.asked.subscribe(), self.answered.subscribe());
        let Some(since) = self.request(&key, image) else {
            return Finding { version: unknown, pending: true };
        };
        let answer = async {
            loop {
                let said = self.known().answers.get(&key).copied();
                // A failure of before is no answer to this question.
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
            // Nobody asks any more: the gateway is about to end.
            () = self.wanted.closed() => Finding { version: unknown, pending: true },
        }
    }

    /// Has an image asked unless it is already about to be; how many answers there were before. `None`: too many wait.
    fn request(&self, key: &Image, image: &str) -> Option<u64> {
        let mut known = self.known();
        let is_known = known.answers.get(key).is_some_and(|it| it.version.is_some());
        if !is_known && !known.pending.contains(key) {
            self.wanted.try_send((key.clone(), image.to_owned())).ok()?;
            known.pending.insert(key.clone());
        }
        Some(known.n)
    }

    /// The next image to be asked, with the reference to ask by. It is its turn until this is called again.
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
    /// The version of the engine in `image`; waits for `wait` at most where the image has to be asked.
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

    /// The same without asking the image; what would have to be asked as the error.
    pub(crate) async fn version_unasked(
        &self,
        engine: EngineKind,
        image: &str,
        info: Option<&ImageInfo>,
    ) -> Result<EngineVersion, Image> {
        let label = info.and_then(|it| it.version_label.as_deref());
        // Of a program only its simulator is named as an image is.
        let tagged = self.config.programs.is_none() || info.is_some_and(|it| it.simulator);
        let tag = tagged.then(|| EngineVersion::of_image(engine, image));
        let stated = tag
            .into_iter()
            .chain(label.map(|it| EngineVersion::parse(engine, it)))
            .find(|it| matches!(it, EngineVersion::Known(..)));
        if let Some(version) = stated {
            return Ok(version);
        }
        // Our simulator is whatever its label says; an image that is not here can't be asked.
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
                // One that runs for ever instead of answering gets no third chance.
                Err(error @ RuntimeError::Timeout { .. }) => {
                    warn!(%error, image, "the image did not answer");
                    break;
                }
                // Whoever supervises finds out when it starts the image, and stores it.
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
            // Whoever waits goes on without; the next one asks again.
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
