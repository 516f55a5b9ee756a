//! The database of a difference: what changed of it, which a restore puts together with what the base has.

use std::fs;

use gantry_testkit::Database;
use serde_json::json;

use super::{
    EXPORT, IMPORT, RESTORE, assert_whole, carry, completes, export, fails, folder, gantry, kills::add_usage,
    manifest, restored, site, tiny,
};
use crate::{
    support::{assert_error, column},
    team::make_org,
};

#[tokio::test]
async fn a_difference_has_what_changed_of_the_database_and_restores_with_its_base() {
    for database in Database::one("deployment: the database of a difference") {
        let (gateway, owner) = site(database).await;
        owner.post("/admin/models", &tiny()).await.expect(201);
        add_usage(&gateway, 0..20_000).await;
        export(&owner, "p").await;
        let (base, later) = (folder(&gateway, "p"), folder(&gateway, "later"));
        let dump = base.join("db/dump.sql");
        make_org(&owner, "Late").await;
        let body = json!({ "output_dir": "later", "since": "p", "tar_models": true });
        let size = completes(&owner, EXPORT, &body).await["artifacts"]["size_bytes"].as_u64().unwrap();
        let whole = fs::metadata(&dump).unwrap().len();
        println!("{database:?}: the difference has {size} bytes, the dump {whole}");
        assert!(size * 4 < whole, "{size} of {whole}");
        assert_whole(&later);
        make_org(&owner, "Gone").await;

        // Without its base it can't be restored, and that is said before anything is done.
        let mut body = json!({ "output_dir": "later", "drop_existing": true });
        let check = "/admin/deployment/check-database-dump";
        for path in [RESTORE, check] {
            let mut body = body.clone();
            if path == check {
                body.as_object_mut().unwrap().remove("drop_existing");
            }
            let refused = owner.post(path, &body).await;
            assert_error(&refused, 422, "validation_error");
            let id = manifest(&base)["id"].as_str().unwrap().to_owned();
            assert!(refused.json["error"]["message"].to_string().contains(&id), "{}", refused.json);
        }
        let checked = json!({ "output_dir": "later", "base_dir": "p" });
        let checked = owner.post(check, &checked).await.expect(200);
        assert_eq!(
            (&checked["valid"], &checked["tables"]["usage"]),
            (&json!(true), &json!(20_000)),
            "{checked}"
        );
        let (dir, of) = (later.to_str().unwrap(), base.to_str().unwrap());
        let alone = gantry(&["restore", dir, "--dry-run"]);
        assert!(String::from_utf8_lossy(&alone.stderr).contains("--base"), "{alone:?}");
        let proven = gantry(&["restore", dir, "--base", of, "--dry-run"]);
        assert!(proven.status.success(), "{proven:?}");

        body["base_dir"] = json!("p");
        let (owner, job) = restored(&gateway, &owner, &body).await;
        assert_eq!(job["status"], "completed", "{job}");
        let orgs = owner.get("/admin/orgs").await.expect(200);
        let names = column(&orgs, "name");
        assert!(names.contains(&&json!("Late")) && !names.contains(&&json!("Gone")), "{names:?}");

        // Another byte in the base, and nothing is restored.
        make_org(&owner, "Kept").await;
        let mut bytes = fs::read(&dump).unwrap();
        let at = bytes.len() / 2;
        bytes[at] = if bytes[at] == b'1' { b'2' } else { b'1' };
        fs::write(&dump, bytes).unwrap();
        fails(&owner, RESTORE, &body).await;
        let orgs = owner.get("/admin/orgs").await.expect(200);
        assert!(column(&orgs, "name").contains(&&json!("Kept")), "{orgs}");
    }
}

#[tokio::test]
async fn a_difference_of_a_difference_is_imported_and_restored_with_what_lies_beside_it() {
    const NAMES: [&str; 3] = ["first", "second", "third"];
    for database in Database::one("deployment: a difference of a difference") {
        let (here, owner) = site(database).await;
        owner.post("/admin/models", &tiny()).await.expect(201);
        let mut body = json!({ "tar_models": true });
        for name in NAMES {
            fs::write(here.models_dir().join(format!("{name}.gguf")), name).unwrap();
            make_org(&owner, name).await;
            body["output_dir"] = json!(name);
            completes(&owner, EXPORT, &body).await;
            body["since"] = json!(name);
        }
        let id = manifest(&folder(&here, "first"))["id"].as_str().unwrap().to_owned();
        let (there, owner) = site(database).await;
        fs::remove_file(there.models_dir().join("tiny.gguf")).unwrap();
        carry(&here, &there, "second");
        carry(&here, &there, "third");
        let body = json!({ "output_dir": "third", "base_dir": "second" });
        let dry = json!({ "output_dir": "third", "base_dir": "second", "dry_run": true });
        // The dry run says what the import does.
        for body in [&dry, &body] {
            let refused = owner.post(IMPORT, body).await;
            assert_error(&refused, 422, "validation_error");
            assert!(refused.text.contains(&id), "{}", refused.text);
        }
        carry(&here, &there, "first");
        let told = owner.post(IMPORT, &dry).await.expect(200);
        assert_eq!((&told["can_import"], &told["plan"]["new_files"]), (&json!(true), &json!(4)), "{told}");
        completes(&owner, IMPORT, &body).await;
        for name in NAMES {
            let file = there.models_dir().join(format!("{name}.gguf"));
            assert_eq!(fs::read_to_string(file).unwrap(), name);
        }
        let checked = owner.post("/admin/deployment/check-database-dump", &body).await.expect(200);
        assert_eq!(checked["valid"], json!(true), "{checked}");
        let body = json!({ "output_dir": "third", "base_dir": "second", "drop_existing": true });
        let (owner, job) = restored(&there, &owner, &body).await;
        assert_eq!(job["status"], "completed", "{job}");
        let orgs = owner.get("/admin/orgs").await.expect(200);
        let names = column(&orgs, "name");
        assert!(NAMES.iter().all(|it| names.contains(&&json!(it))), "{names:?}");
    }
}
