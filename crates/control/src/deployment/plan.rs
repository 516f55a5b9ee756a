//! What goes into a package: found out before anything is written.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use gantry_domain::{
    ApiError, ErrorCode, ModelId,
    deployment::{Estimate, ExportRequest},
    model::Model,
};
use gantry_inspect::folder::Base;
use gantry_package::{
    contents::{HUB_CACHE, MODELS},
    path::PackagePath,
    source::{Source, SourceError},
};

use super::failed;
use crate::{Control, jobs::unstored};

/// What goes into a package.
pub(super) struct Plan {
    pub(super) models: Vec<Model>,
    /// References of images, sorted; empty if engines are programs.
    pub(super) images: Vec<String>,
    /// Weights and hub cache.
    pub(super) source: Source,
    /// Bytes of weights and of the hub cache.
    pub(super) models_size: u64,
    pub(super) hub_cache_size: u64,
    /// Where in the package the weights of each model lie.
    pub(super) places: BTreeMap<ModelId, Vec<PackagePath>>,
    /// The licence of models, by their ids, as their files name it.
    pub(super) licences: BTreeMap<i64, String>,
    /// The gateway's own program.
    pub(super) program: PathBuf,
    pub(super) program_size: u64,
}

/// Returns the models that go into the package.
pub(super) async fn models(control: &Control, request: &ExportRequest) -> Result<Vec<Model>, ApiError> {
    let read = async { control.store.read().await?.models(true).await };
    let models = read.await.map_err(|error| unstored(&error))?;
    match request.model {
        None => Ok(models),
        Some(id) => {
            let model = models.into_iter().find(|it| it.id == id);
            model.map(|it| vec![it]).ok_or_else(|| ApiError::not_found("model", id))
        }
    }
}

impl Plan {
    /// Looks at the files. Blocks.
    ///
    /// # Errors
    /// Something can't be carried, or the package would lie in what it carries.
    pub(super) fn look(
        control: &Control,
        request: &ExportRequest,
        models: Vec<Model>,
    ) -> Result<Self, ApiError> {
        let (base, hub_cache) = (control.config.models_dir.get(), &control.config.hub_cache_dir);
        let whole = request.model.is_none();
        let mut plan = Self {
            images: images(control, request, &models),
            source: Source::default(),
            models_size: 0,
            hub_cache_size: 0,
            places: BTreeMap::new(),
            licences: BTreeMap::new(),
            program: PathBuf::new(),
            program_size: 0,
            models: Vec::new(),
        };
        for model in &models {
            let found = weights(model, &base, hub_cache);
            plan.licences.extend(licence(&found, &base, hub_cache).map(|it| (model.id.0, it)));
            plan.places.insert(model.id, places(request, &found)?);
        }
        if request.include_weights {
            apart(&request.dir, &base)?;
            let below = |it: &PackagePath| (it.top() == MODELS).then(|| it.below_top().map(PathBuf::from))?;
            let places = plan.places.values().flatten().filter_map(below);
            let places = if whole { vec![PathBuf::new()] } else { places.collect() };
            for place in places {
                plan.source.add(&base, &place, MODELS).map_err(|error| uncarried(&error))?;
            }
            plan.models_size = plan.source.size();
        }
        if request.include_hub_cache && hub_cache.exists() {
            apart(&request.dir, hub_cache)?;
            let below =
                |it: &PackagePath| (it.top() == HUB_CACHE).then(|| it.below_top().map(PathBuf::from))?;
            let places = plan.places.values().flatten().filter_map(below);
            let places = if whole { vec![PathBuf::new()] } else { places.collect() };
            for place in places {
                plan.source.add(hub_cache, &place, HUB_CACHE).map_err(|error| uncarried(&error))?;
            }
            plan.hub_cache_size = plan.source.size() - plan.models_size;
        }
        let program = std::env::current_exe().and_then(|it| Ok((it.metadata()?.len(), it)));
        let (size, program) =
            program.map_err(|error| failed(format!("the gateway's own program can't be read: {error}")))?;
        (plan.program, plan.program_size, plan.models) = (program, size, models);
        Ok(plan)
    }
}

/// Returns the images that the models start with. Those of the settings are there even if no model uses them yet.
fn images(control: &Control, request: &ExportRequest, models: &[Model]) -> Vec<String> {
    if !request.include_images || !control.runtime.traits().exports_images {
        return Vec::new();
    }
    let mut images: Vec<String> = models.iter().map(|it| control.config.image(it).to_owned()).collect();
    if request.model.is_none() && images.is_empty() {
        images.extend(control.config.images.defaults.values().cloned());
    }
    images.sort();
    images.dedup();
    images
}

/// Returns where the weights of a model lie: the folder of the package that they belong into, and the path below it.
fn weights(model: &Model, base: &Path, hub_cache: &Path) -> Vec<(&'static str, String)> {
    let repo = model.config.text("repo_id").filter(|_| model.config.is_online());
    let folders = repo.map(|it| repo_folders(hub_cache, it)).unwrap_or_default();
    let paths = model.config.paths();
    let files = paths.iter().flat_map(|(_, path)| shards(base, path.trim_matches('/')));
    folders.into_iter().map(|it| (HUB_CACHE, it)).chain(files.map(|it| (MODELS, it))).collect()
}

/// Returns the licence that the first of these files names which name one.
fn licence(weights: &[(&str, String)], base: &Path, hub_cache: &Path) -> Option<String> {
    weights.iter().find_map(|(top, path)| {
        let root = if *top == MODELS { base } else { hub_cache };
        gantry_inspect::licence(&Base::open(root).ok()?, path)
    })
}

/// Returns where in the package the weights of a model lie.
fn places(request: &ExportRequest, weights: &[(&str, String)]) -> Result<Vec<PackagePath>, ApiError> {
    let is_carried =
        |top: &str| if top == MODELS { request.include_weights } else { request.include_hub_cache };
    let mut places: Vec<_> = weights
        .iter()
        .filter(|(top, _)| is_carried(top))
        .map(|(top, path)| PackagePath::new(&format!("{top}/{path}")))
        .collect::<Result<_, _>>()
        .map_err(|error| failed(format!("{error}: rename it")))?;
    places.sort();
    places.dedup();
    Ok(places)
}

/// Returns the folders of a repository in the hub cache, relative to it. The engines' layouts are those of the hub's own
/// client: `models--owner--name`, in the cache itself or in its folder `hub`.
fn repo_folders(hub_cache: &Path, repo: &str) -> Vec<String> {
    let repo = repo.split(':').next().unwrap_or(repo);
    let name = format!("models--{}", repo.replace('/', "--"));
    let places = [name.clone(), format!("hub/{name}")];
    places.into_iter().filter(|it| hub_cache.join(it).is_dir()).collect()
}

/// Returns a file and the other shards of its set (`name-00001-of-00003.gguf`), or a folder, relative to `base`. Those that
/// are not there are left out: a model may have been created before its files.
fn shards(base: &Path, path: &str) -> Vec<String> {
    let set = path.strip_suffix(".gguf").and_then(|stem| {
        let (rest, count) = stem.rsplit_once("-of-")?;
        let (name, number) = rest.rsplit_once('-')?;
        let digits = |it: &str| it.len() == 5 && it.bytes().all(|byte| byte.is_ascii_digit());
        let n: u32 = (digits(number) && digits(count)).then(|| count.parse().ok())??;
        Some((1..=n.min(1000)).map(|it| format!("{name}-{it:05}-of-{count}.gguf")).collect::<Vec<_>>())
    });
    let all = set.unwrap_or_else(|| vec![path.to_owned()]);
    all.into_iter().filter(|it| base.join(it).exists()).collect()
}

/// Refuses a package that would contain itself, or lie among the weights.
fn apart(dir: &Path, source: &Path) -> Result<(), ApiError> {
    let real = |path: &Path| {
        let there = path.ancestors().find_map(|it| Some((it, it.canonicalize().ok()?)));
        there.map_or_else(
            || path.to_owned(),
            |(it, real)| match path.strip_prefix(it) {
                Ok(rest) => real.join(rest),
                Err(_) => real,
            },
        )
    };
    let (dir, source) = (real(dir), real(source));
    if dir.starts_with(&source) || source.starts_with(&dir) {
        let message = format!(
            "the package ({}) and what it carries ({}) must not lie in each other: choose another `output_dir`",
            dir.display(),
            source.display()
        );
        return Err(ApiError::invalid("output_dir", message));
    }
    Ok(())
}

fn uncarried(error: &SourceError) -> ApiError {
    match error {
        SourceError::Io { .. } => failed(format!("files can't be read: {error}")),
        SourceError::Unusable(_) => {
            ApiError::invalid("tar_models", format!("files can't be carried: {error}"))
        }
    }
}

/// See [`super::estimate`].
pub(super) async fn estimate(control: &Arc<Control>, request: ExportRequest) -> Result<Estimate, ApiError> {
    let models = models(control, &request).await?;
    let (own, asked) = (Arc::clone(control), request.clone());
    let looked = tokio::task::spawn_blocking(move || {
        let plan = Plan::look(&own, &asked, models)?;
        Ok::<_, ApiError>((plan, available(&asked.dir)?))
    });
    let (plan, available) = looked.await.map_err(|_| ApiError::internal())??;
    let mut estimate = Estimate { gateway: plan.program_size, available, ..Estimate::default() };
    estimate.models = request.include_weights.then_some(plan.models_size);
    estimate.hub_cache = request.include_hub_cache.then_some(plan.hub_cache_size);
    if request.include_db {
        estimate.database = Some(control.store.size_bytes().await.map_err(|error| unstored(&error))?);
    }
    if request.include_images {
        let mut images = 0_u64;
        for reference in plan.images {
            let found = control.runtime.image(&reference).await.map_err(|error| unanswered(&error))?;
            match found {
                Some(image) => images = images.saturating_add(image.size_bytes.unsigned_abs()),
                None => estimate.missing_images.push(reference),
            }
        }
        estimate.images = Some(images);
    }
    Ok(estimate)
}

/// Says that the container runtime did not do what it was asked.
pub(super) fn unanswered(error: &gantry_runtime::RuntimeError) -> ApiError {
    ApiError::new(ErrorCode::RuntimeUnavailable, error.to_string())
}

/// Returns the free bytes where a folder is or would be.
pub(super) fn available(dir: &Path) -> Result<u64, ApiError> {
    let there = dir.ancestors().find(|it| it.exists()).unwrap_or(dir);
    let found = rustix::fs::statvfs(there);
    let found = found.map_err(|error| failed(format!("{}: {error}", there.display())))?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_shards_is_carried_whole_and_what_is_not_there_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("q")).unwrap();
        for name in ["q/m-00001-of-00003.gguf", "q/m-00002-of-00003.gguf", "a.gguf"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let found = shards(dir.path(), "q/m-00002-of-00003.gguf");
        assert_eq!(found, ["q/m-00001-of-00003.gguf", "q/m-00002-of-00003.gguf"]);
        assert_eq!(shards(dir.path(), "a.gguf"), ["a.gguf"]);
        assert_eq!(shards(dir.path(), "gone-of-00003.gguf"), [""; 0]);
    }

    #[test]
    fn a_package_and_what_it_carries_lie_apart() {
        let dir = tempfile::tempdir().unwrap();
        let (models, out) = (dir.path().join("models"), dir.path().join("out/new"));
        std::fs::create_dir(&models).unwrap();
        assert!(apart(&out, &models).is_ok());
        assert!(apart(&models.join("x/y"), &models).is_err());
        assert!(apart(dir.path(), &models).is_err());
        std::os::unix::fs::symlink(&models, dir.path().join("link")).unwrap();
        assert!(apart(&dir.path().join("link/new"), &models).is_err());
    }
}
