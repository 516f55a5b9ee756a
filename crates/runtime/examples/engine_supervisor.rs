//! The supervisor of processes as a program of its own, for this crate's tests; what ships is a verb of `gantry`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_none_or(|it| it != gantry_runtime::SUPERVISOR_VERB) {
        return ExitCode::FAILURE;
    }
    ExitCode::from(u8::try_from(gantry_runtime::supervise(words.collect())).unwrap_or(1))
}
