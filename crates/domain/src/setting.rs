//! A setting of the gateway as people may see it.

use crate::view;

view! {
    /// A setting and where its value comes from.
    #[derive(Debug, Clone)]
    pub struct SettingView {
        /// Name of the environment variable; the flag is the same in small letters, with `-` for `_`.
        pub name: String,
        pub group: String,
        /// What it does.
        pub doc: String,
        /// The values that it takes, for people.
        pub allowed: String,
        /// What counts if nobody sets it, for people. Empty: it is not set then.
        pub default: String,
        /// The value in force. `***` for a secret that is set.
        pub value: String,
        /// `default`, `settings file`, `.env`, `environment`, `secret file` or `flag`.
        pub source: String,
    }
}
