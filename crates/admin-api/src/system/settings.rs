//! `/admin/system/settings`: the settings of this gateway, to be looked at.

use axum::extract::State;
use gantry_domain::setting::SettingView;

use crate::{
    App,
    error::Outcome,
    operation::{Listed, Operation},
};

pub(crate) const LIST: Operation = Operation::new("listSettings", "The settings of this gateway").about(
    "Secrets are masked. Settings are read when the gateway starts: to change one, set the environment variable or the flag and start \
     the gateway again. Several gateways on one database have settings of their own.",
);

pub(crate) async fn list(app: State<App>) -> Outcome<Listed<SettingView>> {
    let all = app.config.settings.to_vec();
    let n = all.len() as i64;
    Ok(Listed(all, n))
}
