//! Tokens: a script without anybody's password.

use gantry_testkit::Database;

use super::{Ran, Shell};
use crate::support::{column, gateway};

#[tokio::test]
async fn a_script_works_with_a_token_and_nobody_s_password() {
    for database in Database::one("cli: tokens") {
        let gateway = gateway(database).await;
        let shell = Shell::of_owner(&gateway);
        let made = shell
            .run(&["tokens", "create", "nightly", "--scopes", "usage:read,people:read", "--expires", "2d"])
            .ends(0);
        let token = made.out.trim().to_owned();
        assert!(token.starts_with("gta_") && made.out.lines().count() == 1, "{}", made.out);
        assert!(made.err.contains("is not shown again"), "{}", made.err);
        let listed = shell.run(&["token", "ls", "--json"]).ends(0).json();
        assert_eq!(column(&listed, "name"), ["nightly"]);

        // In the environment, as an option, or kept; a session that was kept stays out of it.
        let script = Shell::at(&gateway.url);
        let with = |args: &[&str]| {
            let mut command = script.command(args);
            Ran::of(command.env("GANTRY_TOKEN", &token).output().unwrap())
        };
        with(&["usage", "--json"]).ends(0);
        assert_eq!(column(&with(&["users", "list", "--json"]).ends(0).json(), "username"), ["owner"]);
        script.run(&["users", "list"]).ends(4);
        script.run(&["users", "list", "--token", &token]).ends(0);
        let beyond = with(&["orgs", "create", "New"]).ends(4).err;
        assert!(beyond.contains("people:write"), "{beyond}");
        let chat = with(&["chat", "m", "hello"]).ends(2).err;
        assert!(chat.contains("GANTRY_API_KEY"), "{chat}");
        std::fs::write(script.home.path().join("token"), format!("{token}\n")).unwrap();
        let kept = script.run(&["login", "--token-file", "token"]).ends(0);
        assert!(kept.out.contains("acts as owner (owner)") && !kept.out.contains(&token), "{}", kept.out);
        script.run(&["users", "list"]).ends(0);

        // A token of the environment does not keep a session alive that its owner ends.
        let other = Shell::of_owner(&gateway);
        other.run(&["users", "list"]).ends(0);
        Ran::of(other.command(&["logout"]).env("GANTRY_TOKEN", &token).output().unwrap()).ends(0);
        other.run(&["users", "list"]).ends(4);

        shell.run(&["tokens", "revoke", "nightly"]).ends(0);
        let gone = script.run(&["users", "list"]).ends(4).err;
        assert!(gone.contains("revoked") && !gone.contains("gantry login"), "{gone}");
        script.run(&["login", "--token-file", "token"]).ends(4);
        script.run(&["logout"]).ends(0);
        shell.run(&["tokens", "revoke", "nightly"]).ends(5);
        shell.run(&["tokens", "create", "x", "--scopes", "everything"]).ends(6);
        shell.run(&["tokens", "create", "x"]).ends(2);
    }
}
