//! Where a user is signed in, and ending that.

use gantry_testkit::{Client, Database};
use serde_json::{Value, json};

use crate::{
    support::{assert_error, column},
    team::{PASSWORD, Team},
};

const SESSIONS: &str = "/auth/sessions";

async fn is_signed_in(client: &Client) -> bool {
    client.get("/auth/me").await.status == 200
}

/// The path of the caller's present session.
async fn present(client: &Client) -> String {
    let sessions = client.get(SESSIONS).await.expect(200);
    let mut found = sessions.as_array().unwrap().iter().filter(|it| it["current"] == true);
    let path = format!("{SESSIONS}/{}", found.next().unwrap()["id"].as_str().unwrap());
    assert!(found.next().is_none(), "{sessions}");
    path
}

#[tokio::test]
async fn a_user_sees_their_own_sessions_and_ends_one_or_all_others() {
    for database in Database::one("own_sessions: one or all others") {
        let team = Team::on(database).await;
        let here = &team.user;
        let [lost, phone] =
            [team.gateway.sign_in("uwe", PASSWORD).await, team.gateway.sign_in("uwe", PASSWORD).await];
        let (of_lost, of_olga) = (present(&lost).await, present(&team.org_admin).await);
        let sessions = here.get(SESSIONS).await.expect(200);
        assert_eq!(sessions.as_array().unwrap().len(), 3, "{sessions}");
        // The session of this request was used last.
        assert_eq!(column(&sessions, "current"), [true, false, false]);
        for it in sessions.as_array().unwrap() {
            let time = |field: &str| it[field].as_str().unwrap().to_owned();
            assert!(time("created_at") <= time("last_used_at"), "{it}");
            assert!(time("last_used_at") < time("expires_at"), "{it}");
        }

        assert_error(&here.delete(&of_olga).await, 404, "not_found");
        assert!(is_signed_in(&team.org_admin).await);
        here.delete(&of_lost).await.expect(200);
        assert_error(&here.delete(&of_lost).await, 404, "not_found");
        assert!(!is_signed_in(&lost).await && is_signed_in(&phone).await && is_signed_in(here).await);

        let ended = here.delete(SESSIONS).await.expect(200);
        assert_eq!(ended, json!({ "status": "ended", "ended_count": 1 }));
        assert!(!is_signed_in(&phone).await && is_signed_in(here).await);
        assert!(is_signed_in(&team.org_admin).await, "those of others go on");
        let left = here.get(SESSIONS).await.expect(200);
        assert_eq!(column(&left, "current"), [true]);

        let rows = team.owner.get("/admin/audit?action=session.end").await.expect(200);
        let actors: Vec<&Value> = column(&rows, "actor");
        assert_eq!(actors, ["uwe", "uwe"]);
        assert_eq!(rows[0]["after"]["ended_sessions"], 1);
        // One's own session can be ended too: that signs out.
        here.delete(&present(here).await).await.expect(200);
        assert!(!is_signed_in(here).await);
    }
}
