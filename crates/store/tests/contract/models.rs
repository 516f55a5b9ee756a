//! Model records, their timelines, and external engines.

use gantry_domain::{
    ModelId,
    diagnosis::{Diagnosis, Fix, Severity},
    engine::EngineAddress,
    model::{
        Apply, Blueprint, EngineKind, Model, ModelConfig, ModelDraft, ModelEvent, Phase, RolledBack, Starts,
        State, Task, Wanted,
        lifecycle::{Failure, InstanceId},
    },
};
use gantry_store::{Constraint, LastRestore, RegistryEntry, StoreError};
use secrecy::ExposeSecret;
use serde_json::json;

use crate::harness::{Database, NOW, at, on_both};

fn entry(name: &str, urls: &[&str], ms: i64) -> RegistryEntry {
    RegistryEntry {
        served_name: name.to_owned(),
        urls: urls.iter().map(|it| (*it).to_owned()).collect(),
        task: Task::Generate,
        upstream_model: None,
        api_key: None,
        sealed_api_key: None,
        created_at: at(ms),
    }
}

pub(crate) fn draft(served_name: &str) -> ModelDraft {
    let config = json!({"repo_id": "Qwen/Qwen3-8B", "gpu_memory_utilization": 0.92, "ü": [1, null, "\u{0}"]});
    ModelDraft {
        name: "Qwen 3".to_owned(),
        served_name: served_name.to_owned(),
        task: Task::Embed,
        engine: EngineKind::Llamacpp,
        archived: false,
        hub_token: Some("hf_secret".to_owned().into()),
        sealed_hub_token: None,
        config: ModelConfig::from_stored(config.as_object().unwrap().clone()),
    }
}

fn diagnosis(message: &str) -> Diagnosis {
    let fix = |value| Fix { text: "change it".to_owned(), field: Some("local_path".into()), value };
    Diagnosis {
        detected: true,
        title: "Damaged".to_owned(),
        message: message.to_owned(),
        fixes: vec![fix(None), fix(Some(json!(null))), fix(Some(json!(7)))],
        field: Some("local_path".into()),
        severity: Severity::Error,
        error_type: "damaged".into(),
        evidence: vec!["E: damaged".to_owned()],
    }
}

fn token(model: &Model) -> Option<&str> {
    model.hub_token.as_ref().map(ExposeSecret::expose_secret)
}

on_both! {
    async fn a_model_lives(db: &Database) {
        let mut tx = db.store.write().await.unwrap();
        let model = tx.insert_model(&draft("qwen"), NOW).await.unwrap();
        assert_eq!((model.wanted, model.generation, &model.phase), (Wanted::Stopped, 0, &Phase::NEW));
        let found = tx.model(model.id).await.unwrap().unwrap();
        assert_eq!((found.name.as_str(), found.served_name.as_str()), ("Qwen 3", "qwen"));
        assert_eq!((found.task, found.engine, found.archived), (Task::Embed, EngineKind::Llamacpp, false));
        assert_eq!((&found.config, token(&found)), (&draft("").config, Some("hf_secret")));
        assert_eq!((found.created_at, found.updated_at), (NOW, NOW));
        assert!(tx.model(ModelId(99)).await.unwrap().is_none());

        let started = tx.command(model.id, Wanted::Running, None, at(1)).await.unwrap().unwrap();
        assert_eq!((started.wanted, started.generation, started.updated_at), (Wanted::Running, 1, at(1)));
        let change = ModelDraft {
            name: "Other".to_owned(),
            task: Task::Generate,
            engine: EngineKind::Vllm,
            archived: true,
            hub_token: None,
            config: ModelConfig::default(),
            ..draft("other")
        };
        let changed = tx.update_model(model.id, &change, at(2)).await.unwrap().unwrap();
        assert_eq!((changed.name.as_str(), changed.served_name.as_str()), ("Other", "other"));
        assert_eq!((changed.task, changed.engine, changed.archived), (Task::Generate, EngineKind::Vllm, true));
        assert_eq!((&changed.config, token(&changed)), (&ModelConfig::default(), None));
        assert_eq!((changed.created_at, changed.updated_at), (NOW, at(2)));
        assert_eq!((changed.wanted, changed.generation, &changed.phase), (Wanted::Running, 1, &Phase::NEW));

        assert!(tx.update_model(ModelId(99), &change, NOW).await.unwrap().is_none());
        assert!(tx.command(ModelId(99), Wanted::Running, None, NOW).await.unwrap().is_none());
        let other = Model { created_at: at(7), ..model.clone() };
        assert!(!tx.delete_model(&other).await.unwrap(), "a restore put another one in its place");
        assert!(!tx.record_phase(&other, &Phase::NEW, "boot").await.unwrap());
        assert!(tx.delete_model(&model).await.unwrap());
        assert!(!tx.delete_model(&model).await.unwrap());
    }

    async fn a_served_name_belongs_to_one_model_in_use(db: &Database) {
        let store = &db.store;
        let mut tx = store.write().await.unwrap();
        let first = tx.insert_model(&draft("qwen"), NOW).await.unwrap();
        tx.insert_model(&ModelDraft { archived: true, ..draft("qwen") }, NOW).await.unwrap();
        let other = tx.insert_model(&draft("other"), NOW).await.unwrap();
        tx.commit().await.unwrap();

        let error = store.write().await.unwrap().insert_model(&draft("qwen"), NOW).await.unwrap_err();
        assert!(matches!(error, StoreError::Conflict(Constraint::ServedName)), "{error:?}");
        let mut tx = store.write().await.unwrap();
        let error = tx.update_model(other.id, &draft("qwen"), NOW).await.unwrap_err();
        assert!(matches!(error, StoreError::Conflict(Constraint::ServedName)), "{error:?}");
        drop(tx);

        let mut tx = store.write().await.unwrap();
        let shown = |models: Vec<Model>| models.into_iter().map(|it| it.id.0).collect::<Vec<_>>();
        assert_eq!(shown(tx.models(false).await.unwrap()), [1, 3]);
        assert_eq!(shown(tx.models(true).await.unwrap()), [1, 2, 3]);
        tx.mark_deleting(first.id, NOW).await.unwrap();
        let third = tx.insert_model(&draft("qwen"), NOW).await.unwrap();
        // Postgres counts the refused row too, so its id is skipped.
        assert_eq!(shown(tx.models(true).await.unwrap()), [2, 3, third.id.0]);
    }

    async fn a_row_that_does_not_decode_keeps_no_other_from_being_read(db: &Database) {
        let mut tx = db.store.write().await.unwrap();
        for name in ["odd", "even"] {
            tx.insert_model(&draft(name), NOW).await.unwrap();
            tx.upsert_registry(&entry(name, &["http://here"], 0)).await.unwrap();
        }
        tx.commit().await.unwrap();
        db.tamper("UPDATE models SET phase = '{}' WHERE served_name = 'odd'").await.unwrap();
        let mut tx = db.store.read().await.unwrap();
        let shown = tx.models(false).await.unwrap();
        assert_eq!(shown.iter().map(|it| it.id.0).collect::<Vec<_>>(), [2], "a list comes without it");
        let models = tx.readable_models().await.unwrap();
        assert_eq!(models.rows.iter().map(|it| it.id.0).collect::<Vec<_>>(), [2]);
        assert_eq!(models.bad[0].to_string(), "row `1` of table `models` does not decode: phase");
        let all = tx.models_for_reconcile().await.unwrap();
        assert_eq!((all.rows.len(), all.bad.iter().map(StoreError::row).collect()), (1, vec![Some("1")]));
        drop(tx);
        db.tamper("UPDATE registry SET urls = '[]' WHERE served_name = 'odd'").await.unwrap();
        let mut tx = db.store.read().await.unwrap();
        let registry = tx.readable_registry().await.unwrap();
        assert_eq!(registry.rows.iter().map(|it| it.served_name.as_str()).collect::<Vec<_>>(), ["even"]);
        assert_eq!(registry.bad[0].to_string(), "row `odd` of table `registry` does not decode: urls");
    }

    async fn a_phase_is_recorded_for_its_generation_only(db: &Database) {
        let mut tx = db.store.write().await.unwrap();
        let id = tx.insert_model(&draft("qwen"), NOW).await.unwrap().id;
        let model = tx.command(id, Wanted::Running, None, NOW).await.unwrap().unwrap();
        let instance = InstanceId("c0ffee".to_owned());
        let failure = Failure::ContainerExited { detail: "exit code 1".to_owned() };
        for phase in [
            Phase::Starting { generation: 1, since: NOW },
            Phase::Loading { generation: 1, instance: instance.clone(), since: NOW, until: at(5) },
            Phase::Running { generation: 1, instance, address: EngineAddress::loopback(40_001), since: NOW },
            Phase::Stopping { generation: 1, since: NOW, until: at(5) },
            Phase::Failed { generation: 1, failure, at: NOW, ran_sec: 3, unwatched: true },
            Phase::Stopped { generation: 1, lost: true },
        ] {
            assert!(tx.record_phase(&model, &phase, "boot").await.unwrap());
            assert_eq!(tx.model(id).await.unwrap().unwrap().phase, phase);
        }
        tx.command(id, Wanted::Stopped, None, NOW).await.unwrap();
        let late = Phase::Starting { generation: 1, since: NOW };
        assert!(!tx.record_phase(&model, &late, "boot").await.unwrap());
        let gone = Model { id: ModelId(99), ..model };
        assert!(!tx.record_phase(&gone, &late, "boot").await.unwrap());
        let model = tx.model(id).await.unwrap().unwrap();
        assert_eq!((model.generation, model.phase), (2, Phase::Stopped { generation: 1, lost: true }));
    }

    async fn a_diagnosis_is_kept_until_the_next_start(db: &Database) {
        let mut tx = db.store.write().await.unwrap();
        let id = tx.insert_model(&draft("qwen"), NOW).await.unwrap().id;
        assert_eq!(tx.command(id, Wanted::Running, None, NOW).await.unwrap().unwrap().diagnosis, None);
        let failed = |detail: Option<&str>| ModelEvent {
            at: NOW,
            from: State::Loading,
            to: State::Failed,
            reason: Some("exit code 1".to_owned()),
            detail: detail.map(str::to_owned),
        };
        let found = diagnosis("\u{0} is not a model");
        tx.insert_event(id, &failed(Some("after 1 s"))).await.unwrap();
        assert!(tx.record_diagnosis(id, 1, &found).await.unwrap());
        tx.insert_event(id, &failed(None)).await.unwrap();
        assert!(tx.record_diagnosis(id, 1, &found).await.unwrap());
        let details: Vec<_> = tx.events(id, 9).await.unwrap().into_iter().map(|it| it.detail.unwrap()).collect();
        assert_eq!(details, ["Damaged: \u{fffd} is not a model", "after 1 s: Damaged: \u{fffd} is not a model"]);
        // A fix that sets a value to null is different from one without a value.
        assert_eq!(tx.model(id).await.unwrap().unwrap().diagnosis, Some(found.clone()));

        // Meanwhile there was another command, or the model is gone.
        let stopped = tx.command(id, Wanted::Stopped, None, NOW).await.unwrap().unwrap();
        assert_eq!(stopped.diagnosis, Some(found.clone()));
        assert!(!tx.record_diagnosis(id, 1, &diagnosis("late")).await.unwrap());
        assert!(!tx.record_diagnosis(ModelId(99), 0, &found).await.unwrap());
        assert_eq!(tx.models(true).await.unwrap()[0].diagnosis, Some(found.clone()));
        assert_eq!(tx.events(id, 9).await.unwrap().len(), 2);

        let model = tx.command(id, Wanted::Running, None, NOW).await.unwrap().unwrap();
        assert_eq!(model.diagnosis, None);
        // The same holds for a model that comes up again without a command.
        assert!(tx.record_diagnosis(id, 3, &found).await.unwrap());
        let runs = Phase::Running { generation: 3, instance: InstanceId("c".to_owned()), address: EngineAddress::loopback(1), since: NOW };
        assert!(tx.record_phase(&model, &Phase::Starting { generation: 3, since: NOW }, "boot").await.unwrap());
        assert!(tx.model(id).await.unwrap().unwrap().diagnosis.is_some());
        assert!(tx.record_phase(&model, &runs, "boot").await.unwrap());
        assert_eq!(tx.model(id).await.unwrap().unwrap().diagnosis, None);
        // The last entry of the timeline is not a failure.
        let event = ModelEvent { to: State::Running, reason: None, ..failed(Some("after 2 s")) };
        tx.insert_event(id, &event).await.unwrap();
        assert!(tx.record_diagnosis(id, 3, &found).await.unwrap());
        assert_eq!(tx.events(id, 1).await.unwrap()[0].detail.as_deref(), Some("after 2 s"));
        tx.commit().await.unwrap();

        // A diagnosis that another version wrote does not make the model unreadable.
        db.tamper("UPDATE models SET diagnosis = '{}'").await.unwrap();
        assert_eq!(db.store.read().await.unwrap().model(id).await.unwrap().unwrap().diagnosis, None);
    }

    async fn a_deletion_is_remembered_until_it_is_done(db: &Database) {
        let mut tx = db.store.write().await.unwrap();
        let kept = tx.insert_model(&ModelDraft { archived: true, ..draft("kept") }, NOW).await.unwrap();
        let id = tx.insert_model(&draft("qwen"), NOW).await.unwrap().id;
        tx.command(id, Wanted::Running, None, NOW).await.unwrap();
        let marked = tx.mark_deleting(id, at(1)).await.unwrap().unwrap();
        assert_eq!((marked.wanted, marked.generation, marked.updated_at), (Wanted::Stopped, 2, at(1)));
        assert_eq!(tx.mark_deleting(id, at(2)).await.unwrap().unwrap().generation, 2);
        assert!(tx.mark_deleting(ModelId(99), at(1)).await.unwrap().is_none());
        tx.commit().await.unwrap();

        let mut tx = db.store.write().await.unwrap();
        assert!(tx.model(id).await.unwrap().is_none());
        assert!(tx.command(id, Wanted::Running, None, at(2)).await.unwrap().is_none());
        assert!(tx.update_model(id, &draft("qwen"), at(2)).await.unwrap().is_none());
        let phase = Phase::Stopped { generation: 2, lost: false };
        assert!(tx.record_phase(&marked, &phase, "boot").await.unwrap());
        let all = tx.models_for_reconcile().await.unwrap().rows;
        let all: Vec<_> = all.iter().map(|it| (it.model.id, &it.model.phase, it.deleting)).collect();
        assert_eq!(all, [(kept.id, &Phase::NEW, false), (id, &phase, true)]);
        let one = tx.model_for_reconcile(id).await.unwrap().unwrap();
        assert_eq!((one.model.id, one.model.generation, one.deleting), (id, 2, true));
        assert_eq!(one.restored, LastRestore::default());
        assert!(!tx.model_for_reconcile(kept.id).await.unwrap().unwrap().deleting);
        assert!(tx.delete_model(&one.model).await.unwrap());
        assert!(tx.model_for_reconcile(id).await.unwrap().is_none());
    }

    async fn a_timeline_is_kept_short(db: &Database) {
        let mut tx = db.store.write().await.unwrap();
        let model = tx.insert_model(&draft("a"), NOW).await.unwrap();
        let (id, other) = (model.id, tx.insert_model(&draft("b"), NOW).await.unwrap().id);
        let event = |n: i64| ModelEvent {
            at: at(n),
            from: State::Loading,
            to: State::Failed,
            reason: (n > 2).then(|| "start_failed: …".to_owned()),
            detail: Some(format!("start {n}")),
        };
        for n in 1..=4 {
            tx.insert_event(id, &event(n)).await.unwrap();
            tx.insert_event(other, &event(n)).await.unwrap();
        }
        assert_eq!(tx.events(id, 3).await.unwrap(), [event(4), event(3), event(2)]);
        assert_eq!(tx.trim_events(id, 4).await.unwrap(), 0);
        assert_eq!(tx.trim_events(id, 1).await.unwrap(), 3);
        assert_eq!(tx.events(id, 9).await.unwrap(), [event(4)]);
        assert_eq!(tx.events(other, 9).await.unwrap().len(), 4);
        let binary = ModelEvent { detail: Some("\0".to_owned()), ..event(5) };
        tx.insert_event(id, &binary).await.unwrap();
        tx.delete_model(&model).await.unwrap();
        assert!(tx.events(id, 9).await.unwrap().is_empty());
        let error = tx.insert_event(id, &event(6)).await.unwrap_err();
        assert!(matches!(error, StoreError::Reference), "{error:?}");
    }

    async fn a_record_that_does_not_decode_is_named(db: &Database) {
        let mut tx = db.store.write().await.unwrap();
        let id = tx.insert_model(&draft("qwen"), NOW).await.unwrap().id;
        tx.commit().await.unwrap();
        db.tamper("UPDATE models SET phase = '{}'").await.unwrap();
        let error = db.store.read().await.unwrap().model(id).await.unwrap_err();
        assert_eq!(error.to_string(), format!("row `{id}` of table `models` does not decode: phase"));
    }

    async fn external_engines_are_entered_by_name(db: &Database) {
        let mut tx = db.store.write().await.unwrap();
        tx.upsert_registry(&entry("b", &["http://one"], 1)).await.unwrap();
        tx.upsert_registry(&entry("a", &["http://two"], 2)).await.unwrap();
        let again = RegistryEntry {
            task: Task::Embed,
            upstream_model: Some("org/b".to_owned()),
            api_key: Some("sk-1".to_owned().into()),
            ..entry("b", &["http://three", "https://four/v1"], 3)
        };
        tx.upsert_registry(&again).await.unwrap();
        let all = tx.registry().await.unwrap();
        assert_eq!((all[0].served_name.as_str(), all[0].upstream_model.as_deref()), ("b", Some("org/b")));
        assert_eq!(all[0].urls, ["http://three", "https://four/v1"]);
        assert_eq!((all[0].task, all[0].created_at), (Task::Embed, at(1)));
        assert_eq!(all[0].api_key.as_ref().map(ExposeSecret::expose_secret), Some("sk-1"));
        assert_eq!((all.len(), all[1].served_name.as_str(), all[1].api_key.is_none()), (2, "a", true));
        assert!(tx.delete_registry("b").await.unwrap());
        assert!(!tx.delete_registry("b").await.unwrap());
        assert_eq!(tx.registry().await.unwrap().len(), 1);
    }

    async fn an_apply_can_go_back_to_what_got_ready(db: &Database) {
        let mut tx = db.store.write().await.unwrap();
        let id = tx.insert_model(&draft("qwen"), NOW).await.unwrap().id;
        assert!(tx.lock_model(id).await.unwrap());
        assert!(!tx.lock_model(ModelId(99)).await.unwrap());
        let instance = InstanceId("c0ffee".to_owned());
        let starting = |generation| Phase::Starting { generation, since: NOW };
        let model = tx.command(id, Wanted::Running, None, NOW).await.unwrap().unwrap();
        assert!(tx.record_phase(&model, &starting(1), "boot").await.unwrap());
        let model = tx.model(id).await.unwrap().unwrap();
        let good = Blueprint::of(&model);
        assert_eq!((model.launched.as_ref(), &model.last_good, &model.apply), (Some(&good), &None, &None));

        // The model was edited while it started. What got ready is what was started.
        let edit = ModelDraft { task: Task::Generate, config: ModelConfig::default(), ..draft("qwen") };
        tx.update_model(id, &edit, NOW).await.unwrap();
        let running = Phase::Running { generation: 1, instance, address: EngineAddress::loopback(40_001), since: NOW };
        assert!(tx.record_phase(&model, &running, "boot").await.unwrap());
        let model = tx.model(id).await.unwrap().unwrap();
        assert_eq!((model.last_good.as_ref(), model.task), (Some(&good), Task::Generate));

        let apply = Apply { at: at(3), swap: true, rollback: true, rolled_back: None };
        let model = tx.command(id, Wanted::Running, Some(&apply), at(3)).await.unwrap().unwrap();
        assert_eq!(model.apply.as_ref(), Some(&apply));
        assert!(tx.record_phase(&model, &starting(2), "boot").await.unwrap());
        let model = tx.model(id).await.unwrap().unwrap();
        assert_eq!(model.launched, Some(Blueprint::of(&model)));
        let replaced = RolledBack { reason: "container_exited: 1".to_owned(), diagnosis: None, replaced: Blueprint::of(&model) };
        let back = Apply { rollback: false, rolled_back: Some(replaced), ..apply };
        let after = tx.roll_back(&model, &good, &back, at(4)).await.unwrap().unwrap();
        assert_eq!((after.generation, Blueprint::of(&after), after.apply.as_ref()), (3, good, Some(&back)));
        assert!(tx.roll_back(&model, &Blueprint::of(&model), &back, at(4)).await.unwrap().is_none());

        // The model is ready again: requests no longer wait, but what happened stays known until the next command.
        let running = Phase::Running { generation: 3, instance: InstanceId("d0".to_owned()), address: EngineAddress::loopback(1), since: NOW };
        assert!(tx.record_phase(&after, &running, "boot").await.unwrap());
        let done = tx.model(id).await.unwrap().unwrap().apply.unwrap();
        assert_eq!((done.swap, done.rolled_back.is_some()), (false, true));
        tx.command(id, Wanted::Stopped, None, NOW).await.unwrap();
        assert_eq!(tx.model(id).await.unwrap().unwrap().apply, None);
    }

    async fn what_is_started_without_a_command_goes_on_as_it_was(db: &Database) {
        let mut tx = db.store.write().await.unwrap();
        let id = tx.insert_model(&draft("qwen"), NOW).await.unwrap().id;
        let starting = |generation| Phase::Starting { generation, since: NOW };
        let model = tx.command(id, Wanted::Running, None, NOW).await.unwrap().unwrap();
        assert_eq!(model.starts, None);
        assert!(tx.record_phase(&model, &starting(1), "one").await.unwrap());
        let model = tx.model(id).await.unwrap().unwrap();
        assert_eq!(model.starts, Some(Starts { boot: Some("one".to_owned()), again: Vec::new() }));
        let good = Blueprint::of(&model);

        // The model was edited since, and the edit was not applied.
        let edit = ModelDraft { config: ModelConfig::default(), ..draft("qwen") };
        tx.update_model(id, &edit, NOW).await.unwrap();
        let starts = Starts { again: vec![at(5)], ..model.starts.clone().unwrap() };
        let after = tx.start_again(&model, &starts).await.unwrap().unwrap();
        assert_eq!((after.generation, after.starts.as_ref()), (2, Some(&starts)));
        assert!(tx.start_again(&model, &starts).await.unwrap().is_none(), "somebody was faster");
        assert!(tx.record_phase(&after, &starting(2), "two").await.unwrap());
        let model = tx.model(id).await.unwrap().unwrap();
        assert_eq!(model.launched, Some(good));
        assert_eq!(model.starts, Some(Starts { boot: Some("two".to_owned()), again: vec![at(5)] }));

        // A command clears the record of starts.
        let apply = Apply { at: at(6), swap: true, rollback: true, rolled_back: None };
        let model = tx.command(id, Wanted::Running, Some(&apply), at(6)).await.unwrap().unwrap();
        assert_eq!(model.starts, None);
        assert!(tx.give_up_roll_back(&model).await.unwrap());
        let stopped = tx.command(id, Wanted::Stopped, None, NOW).await.unwrap().unwrap();
        assert_eq!(stopped.apply, None);
        assert!(!tx.give_up_roll_back(&model).await.unwrap());
        assert!(tx.start_again(&stopped, &starts).await.unwrap().is_none(), "it is to be stopped");
    }

    async fn a_name_leads_to_one_place(db: &Database) {
        let mut tx = db.store.write().await.unwrap();
        tx.exclusive().await.unwrap();
        let config = json!({ "lora_adapters": ["tuned=a/b"] });
        let config = ModelConfig::from_stored(config.as_object().unwrap().clone());
        let with_adapter = ModelDraft { engine: EngineKind::Vllm, config, ..draft("base") };
        let id = tx.insert_model(&with_adapter, NOW).await.unwrap().id;
        tx.upsert_registry(&entry("away", &["http://one"], 0)).await.unwrap();
        assert_eq!(tx.taken_name(None, "free", &["also-free"]).await.unwrap(), None);
        assert_eq!(tx.taken_name(Some(id), "base", &["tuned"]).await.unwrap(), None, "its own");
        let taken = |it: Option<(&'static str, String)>| it.unwrap();
        let (field, whose) = taken(tx.taken_name(None, "tuned", &[]).await.unwrap());
        assert_eq!((field, whose.contains("an adapter of the model")), ("served_name", true), "{whose}");
        assert_eq!(taken(tx.taken_name(None, "free", &["base"]).await.unwrap()).0, "lora_adapters");
        assert_eq!(taken(tx.taken_name(None, "away", &[]).await.unwrap()).0, "served_name");
    }
}
