//! A model of a package that is to be made on this gateway.

use gantry_domain::{
    ApiError, ErrorCode, Role,
    deployment::ImportPlan,
    model::{Model, ModelDraft},
    view,
};
use gantry_package::model_manifest::ModelManifest;
use serde_json::{Map, Value, json};

use crate::{
    App,
    caller::Caller,
    error::{Outcome, Problem},
    models,
};

/// What a name gets that is taken, with `rename`.
const SUFFIX: &str = "-IMPORTED";
/// Most names that are tried.
const MOST_NAMES: usize = 1000;

view! {
    /// Who has the name.
    #[derive(Debug)]
    pub(crate) struct ConflictWith {
        served_name: String,
        message: String,
    }
}

/// A model that is to be made.
pub(super) struct Wanted {
    pub(super) body: Map<String, Value>,
    pub(super) rename: bool,
}

/// A draft, and the names that it would have.
pub(super) struct Checked {
    pub(super) draft: ModelDraft,
    pub(super) conflict: Option<ConflictWith>,
}

impl Wanted {
    pub(super) fn set(&mut self, name: &str, value: Option<&String>) {
        if let Some(value) = value {
            self.body.insert(name.to_owned(), json!(value));
        }
    }

    /// Returns the draft with a name that is free, or that of the manifest if names are not to be changed.
    pub(super) async fn draft(&self, app: &App, role: Role) -> Outcome<Checked> {
        let draft = |body: &Map<String, Value>| {
            ModelDraft::create(body, role).map_err(|it| Problem(ApiError::validation(it)))
        };
        let original = draft(&self.body)?;
        models::check(app, &original, &self.body).await?;
        let mut tx = app.store.read().await?;
        let Some(message) = models::name_taken(&mut tx, &original).await? else {
            return Ok(Checked { draft: original, conflict: None });
        };
        let conflict = Some(ConflictWith { served_name: original.served_name.clone(), message });
        if !self.rename {
            return Ok(Checked { draft: original, conflict });
        }
        for n in 1..=MOST_NAMES {
            let suffix = if n == 1 { SUFFIX.to_owned() } else { format!("{SUFFIX}-{n}") };
            let mut body = self.body.clone();
            body.insert("served_name".to_owned(), json!(format!("{}{suffix}", original.served_name)));
            body.insert("name".to_owned(), json!(format!("{}{suffix}", original.name)));
            let renamed = draft(&body)?;
            if models::name_taken(&mut tx, &renamed).await?.is_none() {
                return Ok(Checked { draft: renamed, conflict });
            }
        }
        Err(conflicting(conflict.as_ref()))
    }

    /// The same, and refuses a conflict that is not to be solved.
    pub(super) async fn checked(&self, app: &App, role: Role) -> Outcome<ModelDraft> {
        let checked = self.draft(app, role).await?;
        if checked.conflict.is_some() && !self.rename {
            return Err(conflicting(checked.conflict.as_ref()));
        }
        Ok(checked.draft)
    }

    /// Makes the model.
    pub(super) async fn create(&self, app: &App, caller: &Caller) -> Outcome<Model> {
        for _ in 0..MOST_NAMES {
            let draft = self.checked(app, caller.role()).await?;
            match models::insert(app, caller, &draft).await {
                // Somebody took the name in this moment.
                Err(error) if self.rename && error.0.code == ErrorCode::ServedNameConflict => {}
                done => return done,
            }
        }
        Err(conflicting(None))
    }
}

fn conflicting(conflict: Option<&ConflictWith>) -> Problem {
    let message = conflict.map_or("the served name is taken", |it| it.message.as_str());
    let message =
        format!("{message}: import it with `conflict_strategy` `rename`, or with `served_name_override`");
    Problem(ApiError::new(ErrorCode::ServedNameConflict, message).with_param("served_name"))
}

/// Says what is to be done after the import, so that the model can start.
pub(super) async fn warnings(
    app: &App,
    manifest: &ModelManifest,
    draft: &ModelDraft,
    plan: &ImportPlan,
) -> Vec<String> {
    let mut warnings = Vec::new();
    for secret in &manifest.redacted {
        warnings.push(match secret.strip_prefix("extra_env.") {
            None => "the model-hub token is not in the package: add a model-hub token (`hub_token`) after the import".to_owned(),
            Some(name) => {
                format!("the value of the environment variable {name} is not in the package: set it again in `extra_env`")
            }
        });
    }
    if draft.config.is_online() {
        let repo = draft.config.text("repo_id").unwrap_or_default();
        if manifest.weights.is_empty() {
            warnings.push(format!(
                "the model is fetched from the hub ({repo}), and the package does not have it: the start needs a network, or the \
                 repository in the hub cache"
            ));
        }
    } else if let Some(path) = draft.config.text("local_path") {
        let there = models::is_there(app, path).await;
        let comes = plan.new_files > 0 || plan.present_files > 0;
        if !there && !comes {
            warnings.push(format!(
                "`{path}` is not below the models base directory and not in the package: put it there before the start"
            ));
        }
    }
    warnings.extend(plan.missing_images.iter().map(|it| {
        format!("image {it} is neither in the package nor on this machine: load it before the start")
    }));
    warnings.extend(
        plan.replaced_images
            .iter()
            .map(|it| format!("another image has the name {it} now: the name moves to the package's image")),
    );
    warnings
}
