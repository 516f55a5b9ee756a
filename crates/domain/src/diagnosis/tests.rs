//! Checks that the tables are consistent. Tests with recorded logs are in `tests/diagnosis.rs`.

use super::{signature::Try, *};

#[test]
fn names_are_unique_and_stable_in_form() {
    let mut ids: Vec<_> = error_types().collect();
    assert!(ids.len() >= 40, "{}", ids.len());
    assert!(
        ids.iter()
            .all(|it| it.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'_'))
    );
    ids.sort_unstable();
    ids.windows(2).for_each(|it| assert_ne!(it[0], it[1]));
}

#[test]
fn advice_names_only_fields_that_the_engine_has() {
    for row in table() {
        for advice in row.fixes {
            let (Target::Field(name) | Target::Path(name) | Target::FirstSet(&[name, ..])) = advice.target
            else {
                continue;
            };
            if matches!(name, "task" | "hub_token") {
                continue;
            }
            let engines = EngineKind::ALL.into_iter().filter(|it| row.applies_to(*it));
            let known = |engine| fields::find(name, engine).is_some_and(|it| it.applies_to(engine));
            // Signatures for both engines may hold advice that is for one engine only.
            let fits = match row.engine {
                Some(engine) => known(engine),
                None => engines.into_iter().any(known),
            };
            assert!(fits, "{}: `{name}`", row.id);
        }
    }
}

#[test]
fn templates_name_only_what_their_patterns_capture() {
    for row in table() {
        let patterns = match row.when {
            When::Log(it) | When::Reason(it) | When::Either(it) => it,
            When::Exit(_) | When::OutOfMemory | When::Watch(_) => &[],
        };
        let captured: Vec<&str> = patterns.iter().flat_map(|it| names(it)).collect();
        let used = row.fixes.iter().flat_map(|it| names(it.text.en)).chain(names(row.message.en));
        for name in used {
            assert!(name == "field" || captured.contains(&name), "{}: `{name}`", row.id);
        }
        for advice in row.fixes {
            if let Try::Captured(name) = advice.value {
                assert!(captured.contains(&name), "{}: `{name}`", row.id);
            }
        }
    }
}

/// A `…` in a message says nothing. So a capture that only some patterns have must stand in an optional part.
#[test]
fn messages_have_no_gaps() {
    for row in table() {
        let (When::Log(patterns) | When::Reason(patterns) | When::Either(patterns)) = row.when else {
            continue;
        };
        for pattern in patterns.iter().chain(row.vague) {
            let found: Captures<'_> = names(pattern).into_iter().map(|it| (it, "x")).collect();
            let mut texts = row.fixes.iter().map(|it| it.text.en).chain([row.message.en]);
            let gaps = |it: &str| it.matches('…').count();
            let gap = texts.find(|it| gaps(&pattern::fill(&it.replace("{field}", "x"), &found)) > gaps(it));
            assert_eq!(gap, None, "{}: {pattern}", row.id);
        }
    }
}

#[test]
fn texts_keep_the_house_style() {
    for row in table() {
        for text in row.fixes.iter().map(|it| it.text.en).chain([row.message.en]) {
            assert!(
                !text.ends_with('.') && !text.starts_with(char::is_uppercase) || text.starts_with("GGUF"),
                "{text}"
            );
        }
        for title in [row.title.en, row.title.de] {
            assert!(title.starts_with(char::is_uppercase) && !title.ends_with('.'), "{title}");
        }
    }
}

/// A page finds the variable parts of an English text and puts them into the German one.
#[test]
fn german_texts_have_the_variable_parts_and_the_code_of_the_english_ones() {
    let code = |text: &'static str| -> Vec<_> { text.split('`').skip(1).step_by(2).collect() };
    let sorted = |mut it: Vec<&'static str>| {
        it.sort_unstable();
        it
    };
    for (en, de) in reference::texts().flat_map(|it| it.texts) {
        assert_eq!(sorted(names(en)), sorted(names(de)), "{en}: {de}");
        assert_eq!(sorted(code(en)), sorted(code(de)), "{en}: {de}");
        assert_eq!(en.matches('[').count(), de.matches('[').count(), "{en}: {de}");
        assert!(de.len() > 5 && en != de && !de.ends_with('.'), "{de}");
    }
}

/// Each variable part of an English text stands in it once, so that a page finds one value for it.
#[test]
fn no_english_text_names_a_variable_part_twice() {
    for (en, _) in reference::texts().flat_map(|it| it.texts) {
        let mut all = names(en);
        all.sort_unstable();
        assert!(all.windows(2).all(|it| it[0] != it[1]), "{en}");
    }
}

fn names(template: &'static str) -> Vec<&'static str> {
    let parts = template.split('{').skip(1).filter_map(|it| it.split('}').next());
    parts.map(|it| it.trim_end_matches('#')).collect()
}
