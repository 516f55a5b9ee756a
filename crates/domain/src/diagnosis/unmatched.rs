//! What a diagnosis says of a failure that no signature matches.

use super::signature::{Both, both};

/// The `error_type` of such a diagnosis.
pub(super) const ERROR_TYPE: &str = "unknown";
/// Title, if something failed.
pub(super) const FAILED: Both = both("Unknown failure", "Unbekannter Fehler");
/// Title, if nothing did.
pub(super) const FINE: Both = both("No failure found", "Kein Fehler gefunden");
pub(super) const FIRST_ERROR: Both =
    both("the first error in the log is: {line}", "der erste Fehler im Protokoll lautet: {line}");
pub(super) const NO_ERROR: Both = both("the log shows no error", "das Protokoll zeigt keinen Fehler");
const READ_ON: Both =
    both("read the log from the first error on", "lesen Sie das Protokoll vom ersten Fehler an");
const COMPARE: Both = both(
    "compare the settings with the dry-run's warnings",
    "vergleichen Sie die Einstellungen mit den Warnungen der Prüfung vor dem Start",
);
/// The advice, if something failed.
pub(super) const TIPS: &[Both] = &[READ_ON, COMPARE];
/// Every text.
pub(super) const TEXTS: &[Both] = &[FAILED, FINE, FIRST_ERROR, NO_ERROR, READ_ON, COMPARE];
