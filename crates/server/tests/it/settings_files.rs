//! The files that settings come from: `.env` and that of the machine's service.

use serde_json::Value;
use tempfile::TempDir;

use crate::settings_cli::{gantry, refused, row, settings};

#[test]
fn a_flag_beats_the_environment_which_beats_the_file_which_beats_the_default() {
    let dir = TempDir::new().unwrap();
    let file = "# mine\nexport STOP_TIMEOUT_SEC=1\nHEALTH_POLL_SEC = '2'\nDRAIN_TIMEOUT_SEC=\"3\"\n";
    std::fs::write(dir.path().join(".env"), file).unwrap();
    let secret = dir.path().join("secret");
    std::fs::write(&secret, "from-a-file-0000001\n").unwrap();
    let env = [
        ("STOP_TIMEOUT_SEC", "10"),
        ("HEALTH_POLL_SEC", "20"),
        ("SESSION_SECRET_FILE", secret.to_str().unwrap()),
        ("DOCKER_HOST", "unix:///elsewhere.sock"),
        ("NOT_OURS", "whatever"),
    ];
    let rows = settings(dir.path(), &["--stop-timeout-sec", "100"], &env);
    for (name, value, source) in [
        ("STOP_TIMEOUT_SEC", "100", "flag"),
        ("HEALTH_POLL_SEC", "20", "environment"),
        ("DRAIN_TIMEOUT_SEC", "3", ".env"),
        ("BREAKER_FAILURES", "5", "default"),
        ("SESSION_SECRET", "***", "secret file"),
        ("CONTAINER_HOST", "unix:///elsewhere.sock", "environment"),
    ] {
        assert_eq!(row(&rows, name), (value, source), "{name}");
    }
}

#[test]
fn a_file_that_others_can_have_written_is_not_read_and_that_is_said() {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    let dir = TempDir::new().unwrap();
    let file = dir.path().join(".env");
    let look = || gantry(dir.path(), &["settings", "--json"], &[]);
    let passed_over = |why: &str| {
        let said = look();
        assert!(said.ok && said.err.contains(".env in the working directory is not read"), "{}", said.err);
        assert!(said.err.contains(why), "{}", said.err);
        assert!(!said.out.contains(".env\""), "{}", said.out);
    };
    let mode = |mode| std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
    std::fs::write(&file, "SECONDARY_ENGINE_COMMAND=/bin/evil\n").unwrap();
    mode(0o600);
    let said = look();
    assert!(said.err.is_empty() && said.out.contains("/bin/evil"), "{}{}", said.out, said.err);
    mode(0o666);
    passed_over("others may write to it");
    mode(0o600);
    if chown(&file, Some(65534), Some(65534)).is_err() {
        gantry_testkit::skip("settings: a file of somebody else's", "it needs root");
        return;
    }
    passed_over("belongs to the user with the id 65534");
    // Nor through a link of theirs to a file that they could not have written.
    let other = dir.path().join("other");
    std::fs::write(&other, "SECONDARY_ENGINE_COMMAND=/bin/evil\n").unwrap();
    std::fs::remove_file(&file).unwrap();
    symlink(&other, &file).unwrap();
    assert!(look().out.contains("/bin/evil"));
    std::os::unix::fs::lchown(&file, Some(65534), None).unwrap();
    passed_over("belongs to the user with the id 65534");
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, "SECONDARY_ENGINE_COMMAND=/bin/evil\n").unwrap();
    mode(0o660);
    assert!(look().out.contains("/bin/evil"));
    chown(&file, None, Some(65534)).unwrap();
    passed_over("others may write to it");
    std::fs::write(&file, "NONSENSE\n").unwrap();
    assert!(refused(dir.path(), &[("GATEWAY_LISTEN", "x")]).contains("GATEWAY_LISTEN (from environment)"));
}

/// What is refused, with what is said about it.

#[test]
fn the_settings_of_the_machines_service_count_below_all_others() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("gantry.env");
    let path = file.to_str().unwrap();
    std::fs::write(&file, "# the service\nDATA_DIR=/srv/data\nHEALTH_POLL_SEC=7\nLOG_FORMAT=json\n").unwrap();
    std::fs::write(dir.path().join(".env"), "LOG_FORMAT=text\n").unwrap();
    let env = [("GANTRY_SETTINGS_FILE", path), ("HEALTH_POLL_SEC", "9")];
    let said = gantry(dir.path(), &["settings", "--json"], &env);
    assert!(said.ok, "{}", said.err);
    let rows: Vec<Value> = serde_json::from_str(&said.out).unwrap();
    let row = |name: &str| {
        let row = rows.iter().find(|it| it["name"] == name).unwrap();
        (row["value"].as_str().unwrap(), row["source"].as_str().unwrap())
    };
    assert_eq!(row("DATA_DIR"), ("/srv/data", "settings file"));
    assert_eq!(row("HEALTH_POLL_SEC"), ("9", "environment"));
    assert_eq!(row("LOG_FORMAT"), ("text", ".env"));

    // What is wrong in it is named with the file; one that was named must be there.
    std::fs::write(&file, "HELTH_POLL_SEC=7\n").unwrap();
    let said = gantry(dir.path(), &["settings"], &env[..1]);
    assert!(
        said.err.contains("HELTH_POLL_SEC (settings file); did you mean HEALTH_POLL_SEC?"),
        "{}",
        said.err
    );
    std::fs::write(&file, "\nnonsense\n").unwrap();
    let said = gantry(dir.path(), &["settings"], &env[..1]);
    assert!(said.err.contains(&format!("line 2 of {path} is not NAME=value")), "{}", said.err);
    std::fs::remove_file(&file).unwrap();
    let said = gantry(dir.path(), &["settings"], &env[..1]);
    assert!(!said.ok && said.err.contains(&format!("can't read {path}")), "{}", said.err);
    assert!(gantry(dir.path(), &["settings"], &[("GANTRY_SETTINGS_FILE", "")]).ok);
}
