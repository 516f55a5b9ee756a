//! Reads the shell commands of a page, as far as the pages use the shell's language: quotes, comments, continued lines,
//! pipes, redirections, here documents, and commands inside of commands.

use std::{iter::Peekable, mem, str::Chars};

/// Words in front of a command that are not its program.
const KEYWORDS: [&str; 9] = ["if", "then", "elif", "else", "while", "until", "do", "!", "{"];

/// One command. What the shell would replace, such as `$KEY` or `$(date)`, is in the words as it is written.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Command {
    /// Line of its first word in the script, from 0.
    pub(crate) line: usize,
    /// What is set in front of the program, or alone: `NAME=value`.
    pub(crate) assignments: Vec<(String, String)>,
    /// The program and its arguments.
    pub(crate) words: Vec<String>,
}

/// Returns the commands of a script. Those inside of another one, as in `$(…)` and `sh -c '…'`, stand before it.
pub(crate) fn commands(script: &str) -> Vec<Command> {
    let mut reader = Reader {
        rest: script.chars().peekable(),
        line: 0,
        word: None,
        next: Next::Argument,
        command: Command::default(),
        documents: Vec::new(),
        found: Vec::new(),
    };
    reader.read();
    reader.found
}

/// Returns the words that run in the end: those behind `sudo`, `env` or `docker exec CONTAINER`.
pub(crate) fn effective(words: &[String]) -> &[String] {
    let Some((program, rest)) = words.split_first() else { return words };
    let inner = match program.as_str() {
        "sudo" | "env" | "exec" | "nohup" | "time" => after_options(rest, &["-u", "-g"]),
        "docker" | "podman" => match rest.iter().position(|it| it == "exec") {
            Some(at) => {
                let rest =
                    after_options(&rest[at + 1..], &["-u", "--user", "-e", "--env", "-w", "--workdir"]);
                rest.get(1..).unwrap_or_default()
            }
            None => return words,
        },
        _ => return words,
    };
    effective(inner)
}

/// Returns name and value of a word that sets a variable: `NAME=value`.
pub(crate) fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let first = name.chars().next()?;
    let is_name = name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_') && !first.is_ascii_digit();
    is_name.then_some((name, value))
}

/// Leaves out options and assignments at the beginning; `valued` options take the next word.
fn after_options<'a>(mut words: &'a [String], valued: &[&str]) -> &'a [String] {
    while let Some(word) = words.first().filter(|it| it.starts_with('-') || assignment(it).is_some()) {
        let taken = if valued.contains(&word.as_str()) { 2 } else { 1 };
        words = words.get(taken..).unwrap_or_default();
    }
    words
}

/// What the word that is being read is.
#[derive(Debug, Clone, Copy)]
enum Next {
    Argument,
    /// The file of a redirection.
    File,
    /// The line that ends a here document.
    End,
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    line: usize,
    /// The word that is being read; it may be empty, as in `''`.
    word: Option<String>,
    next: Next,
    command: Command,
    /// The lines that end the here documents which begin at the next line.
    documents: Vec<String>,
    found: Vec<Command>,
}

impl Reader<'_> {
    fn read(&mut self) {
        while let Some(c) = self.take() {
            match c {
                '\\' => match self.take() {
                    Some('\n') | None => {}
                    Some(c) => self.push(&c.to_string()),
                },
                '\'' => {
                    let text = self.until('\'');
                    self.push(&text);
                }
                '"' => {
                    let text = self.quoted();
                    self.push(&text);
                }
                '$' | '<' if self.rest.peek() == Some(&'(') => {
                    let text = self.substitution(c);
                    self.push(&text);
                }
                '#' if self.word.is_none() => while self.rest.next_if(|it| *it != '\n').is_some() {},
                '>' | '<' => self.redirection(c),
                '&' if self.rest.peek() == Some(&'>') => self.end_of_word(),
                '\n' => {
                    self.end_of_command();
                    self.skip_documents();
                }
                ';' | '&' | '|' | '(' | ')' => self.end_of_command(),
                c if c.is_whitespace() => self.end_of_word(),
                c => self.push(&c.to_string()),
            }
        }
        self.end_of_command();
    }

    fn take(&mut self) -> Option<char> {
        let c = self.rest.next()?;
        if c == '\n' {
            self.line += 1;
        }
        Some(c)
    }

    fn push(&mut self, text: &str) {
        if self.word.is_none() && self.command.words.is_empty() {
            self.command.line = self.line;
        }
        self.word.get_or_insert_default().push_str(text);
    }

    fn end_of_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        match mem::replace(&mut self.next, Next::Argument) {
            Next::Argument => self.command.words.push(word),
            Next::File => {}
            Next::End => self.documents.push(word),
        }
    }

    fn end_of_command(&mut self) {
        self.end_of_word();
        let mut command = mem::take(&mut self.command);
        let keywords = command.words.iter().take_while(|it| KEYWORDS.contains(&it.as_str())).count();
        command.words.drain(..keywords);
        let set: Vec<_> = command.words.iter().map_while(|it| assignment(it)).collect();
        command.assignments =
            set.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        command.words.drain(..command.assignments.len());
        if let [shell, option, script, ..] = effective(&command.words)
            && matches!(shell.as_str(), "sh" | "bash")
            && option == "-c"
        {
            self.found.extend(moved(commands(script), command.line));
        }
        if !command.words.is_empty() || !command.assignments.is_empty() {
            self.found.push(command);
        }
    }

    /// Reads the rest of `>`, `>>`, `2>&1`, `<`, `<<END` or `<<<`; the word that follows is no argument.
    fn redirection(&mut self, sign: char) {
        let is_number = |it: &String| !it.is_empty() && it.chars().all(|c| c.is_ascii_digit());
        if self.word.as_ref().is_some_and(is_number) {
            self.word = None;
        }
        self.end_of_word();
        let mut signs = 1;
        while self.rest.next_if(|it| *it == sign).is_some() {
            signs += 1;
        }
        self.rest.next_if(|it| matches!(it, '&' | '|' | '-'));
        self.next = if sign == '<' && signs == 2 { Next::End } else { Next::File };
    }

    fn skip_documents(&mut self) {
        for end in mem::take(&mut self.documents) {
            while self.rest.peek().is_some() && self.until('\n').trim() != end {}
        }
    }

    /// Reads up to `end`, which is left out.
    fn until(&mut self, end: char) -> String {
        let mut text = String::new();
        while let Some(c) = self.take().filter(|it| *it != end) {
            text.push(c);
        }
        text
    }

    /// Reads a text in double quotes, whose first quote is read already.
    fn quoted(&mut self) -> String {
        let mut text = String::new();
        while let Some(c) = self.take().filter(|it| *it != '"') {
            match c {
                '\\' => match self.take() {
                    Some('\n') | None => {}
                    Some(c) => text.push(c),
                },
                '$' if self.rest.peek() == Some(&'(') => text += &self.substitution(c),
                c => text.push(c),
            }
        }
        text
    }

    /// Reads `$(…)` or `<(…)`, whose sign is read already, and the commands inside of it. Returns it as it is written.
    fn substitution(&mut self, sign: char) -> String {
        let line = self.line;
        let mut inner = String::new();
        let (mut depth, mut quote) = (0, None);
        while let Some(c) = self.take() {
            match (c, quote) {
                ('\'' | '"', None) => quote = Some(c),
                (c, Some(open)) if c == open => quote = None,
                ('(', None) => depth += 1,
                (')', None) => depth -= 1,
                _ => {}
            }
            inner.push(c);
            if depth == 0 {
                break;
            }
        }
        // Without the brackets.
        let script = inner.strip_prefix('(').unwrap_or(&inner);
        let script = script.strip_suffix(')').unwrap_or(script);
        self.found.extend(moved(commands(script), line));
        format!("{sign}{inner}")
    }
}

/// Adds to the lines of commands that begin at another one.
fn moved(commands: Vec<Command>, line: usize) -> impl Iterator<Item = Command> {
    commands.into_iter().map(move |it| Command { line: it.line + line, ..it })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The programs with their arguments, a line each.
    fn words(script: &str) -> Vec<String> {
        commands(script).iter().map(|it| it.words.join(" ")).collect()
    }

    #[test]
    fn a_line_has_one_command_without_its_comment() {
        assert_eq!(
            words("gantry keys create laptop   # prints the key, this once\n"),
            ["gantry keys create laptop"]
        );
        assert_eq!(words("# nothing\n\ngantry chat qwen \"Hello #1\""), ["gantry chat qwen Hello #1"]);
    }

    #[test]
    fn lines_are_continued_and_counted() {
        let found = commands("a \\\n  b 'c\nd'\n\ne");
        assert_eq!(found[0].words, ["a", "b", "c\nd"]);
        assert_eq!(found.iter().map(|it| it.line).collect::<Vec<_>>(), [0, 4]);
    }

    #[test]
    fn pipes_lists_and_brackets_separate_commands() {
        assert_eq!(words("a | b && c || d; (umask 077; e) & f"), ["a", "b", "c", "d", "umask 077", "e", "f"]);
        assert_eq!(words("if ! a; then b; fi"), ["a", "b", "fi"]);
    }

    #[test]
    fn redirections_are_no_arguments() {
        assert_eq!(words("a > file 2>&1 < other b"), ["a b"]);
        assert_eq!(words("a &> file; b >>file"), ["a", "b"]);
        assert_eq!(words("cat >file <<END\ngantry nothing\nEND\nb"), ["cat", "b"]);
    }

    #[test]
    fn assignments_stand_before_the_program_or_alone() {
        let found = commands("A=1 B=\"$(cat x)\" gantry serve\nC=http://h?a=b\n");
        let set = |it: &Command| it.assignments.iter().map(|it| it.0.clone()).collect::<Vec<_>>();
        assert_eq!(
            found.iter().map(set).collect::<Vec<_>>(),
            [vec![], vec!["A".to_owned(), "B".to_owned()], vec!["C".to_owned()]]
        );
        assert_eq!(found[1].words, ["gantry", "serve"]);
        assert!(found[2].words.is_empty());
    }

    #[test]
    fn commands_in_commands_are_found() {
        assert_eq!(words("x \"$(a \"$(b c)\")/d\""), ["b c", "a $(b c)", "x $(a \"$(b c)\")/d"]);
        assert_eq!(
            words("sudo sh -c 'gantry restore \"$(ls -t dir/* | head -1)\" --yes'"),
            [
                "ls -t dir/*",
                "head -1",
                "gantry restore $(ls -t dir/* | head -1) --yes",
                "sudo sh -c gantry restore \"$(ls -t dir/* | head -1)\" --yes"
            ]
        );
    }

    #[test]
    fn programs_that_start_others_are_looked_through() {
        for (line, runs) in [
            ("gantry doctor", "gantry doctor"),
            ("sudo gantry doctor", "gantry doctor"),
            ("sudo -u gantry A=b gantry doctor", "gantry doctor"),
            ("docker exec -u 0 gantry gantry doctor --json", "gantry doctor --json"),
            ("docker compose -p gantry exec gateway gantry status", "gantry status"),
            ("docker load -i image.tar", "docker load -i image.tar"),
            ("sudo", ""),
        ] {
            assert_eq!(effective(&commands(line)[0].words).join(" "), runs, "{line}");
        }
    }
}
