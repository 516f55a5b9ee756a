//! The simulator's own options for pace and faults, from `--sim-*` flags or `GANTRY_SIM_*`.

use std::time::Duration;

use crate::args::{Env, Exit};

pub(crate) const HELP: &str = "
which engine is simulated (also as GANTRY_SIM_FLAVOUR and GANTRY_SIM_ENGINE_VERSION):
  --flavour NAME             vllm (default) or llamacpp, whose options these then are
  --engine-version VERSION   as its project writes it, for example 0.18.0 or b6343
`gantry engine-sim image` loads the simulator into Docker; `gantry engine-sim image --help` says how

simulator options (each also as GANTRY_SIM_… in the environment, for example GANTRY_SIM_TTFT_MS=50):
  --sim-tokens-per-sec N     pace of each answer; 0 (default) is as fast as possible
  --sim-ttft-ms N            wait before the first token
  --sim-load-seconds N       length of the loading phase
  --sim-crash-at-start [C]   print a start-up failure and exit, with code C (default 1)
  --sim-crash-log KIND       oom, unsupported-arch or missing-file (default)
  --sim-crash-after-tokens N end the process once N tokens were generated in total
  --sim-hang                 accept inference requests and never answer
  --sim-hang-after-tokens N  fall silent in every answer after N tokens
  --sim-wrong-key            answer 401 to every request that needs a key
  --sim-oom                  run out of memory after loading, exit 1
  --sim-oom-above-context N  do so only with more than N tokens of context
  --sim-no-chat-template     refuse chat as a model without a template does (vLLM)
  --sim-bad-lists N          list the models once, then refuse N times with 500
  --sim-error-status N       answer inference with this HTTP status
  --sim-error-after N        fail every answer after N tokens
";

/// A recorded start-up failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CrashLog {
    Oom,
    UnsupportedArch,
    #[default]
    MissingFile,
}

/// Faults and pace of the simulator.
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent switch of the command line")]
pub struct Faults {
    /// Tokens per second of one answer; 0 is unpaced.
    pub tokens_per_sec: f64,
    pub ttft: Duration,
    pub load: Duration,
    /// Exit code if the process crashes at start.
    pub crash_at_start: Option<i32>,
    pub crash_log: CrashLog,
    pub crash_after_tokens: Option<u64>,
    pub hang: bool,
    pub hang_after_tokens: Option<u64>,
    pub wrong_key: bool,
    pub oom: bool,
    pub oom_above_context: Option<u64>,
    pub no_chat_template: bool,
    pub error_status: Option<u16>,
    pub error_after: Option<u64>,
    pub bad_lists: u64,
    /// `GANTRY_SIM_ANY_MODEL`: any model path is accepted without a look whether it exists.
    pub any_model: bool,
}

const SWITCHES: &[&str] = &["--sim-hang", "--sim-wrong-key", "--sim-oom", "--sim-no-chat-template"];
const VALUES: &[&str] = &[
    "--sim-tokens-per-sec",
    "--sim-ttft-ms",
    "--sim-load-seconds",
    "--sim-crash-at-start",
    "--sim-crash-log",
    "--sim-crash-after-tokens",
    "--sim-hang-after-tokens",
    "--sim-bad-lists",
    "--sim-oom-above-context",
    "--sim-error-status",
    "--sim-error-after",
];

impl Faults {
    /// Takes the simulator's options out of `args`; what remains is the engine's command line.
    pub(crate) fn take(args: &[String], env: &Env) -> Result<(Self, Vec<String>), Exit> {
        let mut faults =
            Self { any_model: env.get("GANTRY_SIM_ANY_MODEL").is_some_and(|v| v == "1"), ..Self::default() };
        for name in SWITCHES.iter().chain(VALUES) {
            let variable =
                format!("GANTRY_{}", name.trim_start_matches('-').replace('-', "_").to_uppercase());
            match env.get(&variable).map(String::as_str) {
                None | Some("") => {}
                Some("0" | "false") if SWITCHES.contains(name) => {}
                Some(value) => faults.set(name, value)?,
            }
        }
        let mut rest = Vec::new();
        let mut words = args.iter().peekable();
        while let Some(word) = words.next() {
            let (name, inline) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (word.as_str(), None),
            };
            if !name.starts_with("--sim-") {
                rest.push(word.clone());
            } else if SWITCHES.contains(&name) {
                faults.set(name, "1")?;
            } else if !VALUES.contains(&name) {
                return Err(refuse(&format!("there is no option `{name}`")));
            } else if let Some(value) = inline {
                faults.set(name, &value)?;
            } else if name == "--sim-crash-at-start" {
                let code = words.next_if(|next| next.parse::<i32>().is_ok());
                faults.set(name, code.map_or("1", String::as_str))?;
            } else {
                let value = words.next().ok_or_else(|| refuse(&format!("`{name}` needs a value")))?;
                faults.set(name, value)?;
            }
        }
        Ok((faults, rest))
    }

    /// Decides whether this much context, in tokens, makes it run out of memory.
    pub(crate) fn with_context(self, tokens: u32) -> Self {
        let too_long = self.oom_above_context.is_some_and(|most| u64::from(tokens) > most);
        Self { oom: self.oom || too_long, ..self }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), Exit> {
        let number =
            || value.parse::<u64>().map_err(|_| refuse(&format!("`{value}` is not a value for `{name}`")));
        let seconds = || {
            let number = value.parse::<f64>().ok();
            number
                .and_then(|number| Duration::try_from_secs_f64(number).ok())
                .ok_or_else(|| refuse(&format!("`{value}` is not a value for `{name}`")))
        };
        match name {
            "--sim-hang" => self.hang = true,
            "--sim-wrong-key" => self.wrong_key = true,
            "--sim-oom" => self.oom = true,
            "--sim-no-chat-template" => self.no_chat_template = true,
            "--sim-tokens-per-sec" => self.tokens_per_sec = seconds()?.as_secs_f64(),
            "--sim-ttft-ms" => self.ttft = Duration::from_millis(number()?),
            "--sim-load-seconds" => self.load = seconds()?,
            "--sim-crash-at-start" => self.crash_at_start = Some(number()? as i32),
            "--sim-crash-after-tokens" => self.crash_after_tokens = Some(number()?),
            "--sim-hang-after-tokens" => self.hang_after_tokens = Some(number()?),
            "--sim-bad-lists" => self.bad_lists = number()?,
            "--sim-oom-above-context" => self.oom_above_context = Some(number()?),
            "--sim-error-after" => self.error_after = Some(number()?),
            "--sim-error-status" => {
                let status = u16::try_from(number()?).ok().filter(|status| (400..600).contains(status));
                self.error_status =
                    Some(status.ok_or_else(|| refuse("`--sim-error-status` takes 400 to 599"))?);
            }
            "--sim-crash-log" => {
                self.crash_log = match value {
                    "oom" => CrashLog::Oom,
                    "unsupported-arch" => CrashLog::UnsupportedArch,
                    "missing-file" => CrashLog::MissingFile,
                    _ => return Err(refuse("`--sim-crash-log` takes oom, unsupported-arch or missing-file")),
                }
            }
            _ => return Err(refuse(&format!("there is no option `{name}`"))),
        }
        Ok(())
    }
}

fn refuse(why: &str) -> Exit {
    Exit::failure(2, format!("engine simulator: {why}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn options_are_taken_out_of_the_engine_command_line() {
        let line =
            words("serve m --sim-ttft-ms 5 --port 1 --sim-crash-at-start --sim-crash-log=oom --sim-hang x");
        let (faults, rest) = Faults::take(&line, &Env::new()).unwrap();
        assert_eq!(rest, words("serve m --port 1 x"));
        assert_eq!(faults.ttft, Duration::from_millis(5));
        assert_eq!((faults.crash_at_start, faults.crash_log, faults.hang), (Some(1), CrashLog::Oom, true));
        let (faults, rest) = Faults::take(&words("--sim-crash-at-start 139 m"), &Env::new()).unwrap();
        assert_eq!((faults.crash_at_start, rest), (Some(139), words("m")));
    }

    #[test]
    fn the_environment_sets_them_too_and_flags_win() {
        let env = Env::from([
            ("GANTRY_SIM_LOAD_SECONDS".to_owned(), "2.5".to_owned()),
            ("GANTRY_SIM_ERROR_AFTER".to_owned(), "7".to_owned()),
            ("GANTRY_SIM_HANG".to_owned(), "0".to_owned()),
        ]);
        let (faults, _) = Faults::take(&words("--sim-error-after 9"), &env).unwrap();
        assert_eq!((faults.load, faults.error_after), (Duration::from_millis(2500), Some(9)));
        assert!(!faults.hang);
    }

    #[test]
    fn nonsense_is_refused() {
        for line in
            ["--sim-bogus", "--sim-ttft-ms", "--sim-ttft-ms x", "--sim-error-status 200", "--sim-crash-log y"]
        {
            assert_eq!(Faults::take(&words(line), &Env::new()).unwrap_err().code, 2, "{line}");
        }
    }
}
