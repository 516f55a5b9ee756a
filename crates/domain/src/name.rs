//! Names that people give to things: which characters they may have, and the form in which two of them are compared.

use unicode_normalization::UnicodeNormalization;

/// The rule for names, for messages that also say how long a name may be.
pub const RULE: &str = "without control characters, invisible characters and blanks at its ends";

/// Characters that are invisible, or that change how the characters around them are shown: general category Cf,
/// `Default_Ignorable_Code_Point`, and the separators of lines and paragraphs. With them, two different names could
/// look alike. From the Unicode Character Database, version 16: `DerivedGeneralCategory.txt` and
/// `DerivedCoreProperties.txt`.
const INVISIBLE: &[(u32, u32)] = &[
    (0x00ad, 0x00ad),
    (0x034f, 0x034f),
    (0x0600, 0x0605),
    (0x061c, 0x061c),
    (0x06dd, 0x06dd),
    (0x070f, 0x070f),
    (0x0890, 0x0891),
    (0x08e2, 0x08e2),
    (0x115f, 0x1160),
    (0x17b4, 0x17b5),
    (0x180b, 0x180f),
    (0x200b, 0x200f),
    (0x2028, 0x202e),
    (0x2060, 0x206f),
    (0x3164, 0x3164),
    (0xfe00, 0xfe0f),
    (0xfeff, 0xfeff),
    (0xffa0, 0xffa0),
    (0xfff0, 0xfffb),
    (0x1_10bd, 0x1_10bd),
    (0x1_10cd, 0x1_10cd),
    (0x1_3430, 0x1_343f),
    (0x1_bca0, 0x1_bca3),
    (0x1_d173, 0x1_d17a),
    (0xe_0000, 0xe_0fff),
];

/// Most characters of a client's name that a message repeats.
const SHOWN: usize = 100;

/// Shortens a name that a client sent, and removes invisible characters, for use in a message.
pub fn shown(name: &str) -> String {
    let seen = |it: char| if it.is_control() || is_invisible(it) { '\u{fffd}' } else { it };
    let mut text: String = name.chars().take(SHOWN).map(seen).collect();
    if name.chars().nth(SHOWN).is_some() {
        text.push('…');
    }
    text
}

/// Whether the character is invisible to a reader.
pub fn is_invisible(char: char) -> bool {
    let code = u32::from(char);
    INVISIBLE.iter().any(|(first, last)| (*first..=*last).contains(&code))
}

/// Whether `text` may be a name: 1 to `max` characters that obey [`RULE`].
pub fn is_name(text: &str, max: usize) -> bool {
    (1..=max).contains(&text.chars().count())
        && text.trim() == text
        && !text.chars().any(|it| it.is_control() || is_invisible(it))
}

/// Returns the text in Unicode normalization form C. Without it the same text could be written in several ways; with it
/// `ë` is always one character, whatever keyboard it comes from.
pub fn composed(text: &str) -> String {
    text.nfc().collect()
}

/// Returns the form in which names are compared: composed, without regard to case.
pub fn folded(text: &str) -> String {
    // Changing the case may undo a composition, so the text is composed again.
    composed(&composed(text).to_lowercase())
}

/// Returns the forms in which names were stored before they were composed: as written, and decomposed, as some file
/// systems and keyboards do.
pub fn older_folded(text: &str) -> [String; 2] {
    [text.to_lowercase(), text.nfd().collect::<String>().to_lowercase()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_look_alike_are_one_or_none() {
        assert_eq!(folded("ZOE\u{308}"), folded("zoë"));
        assert_eq!(composed("Zoe\u{308}"), "Zoë");
        for bad in
            ["", " a", "a ", "a\tb", "a\u{0}", "ada\u{200b}", "\u{202e}ada", "a\u{ad}b", "\u{e0041}", "xxxxx"]
        {
            assert!(!is_name(bad, 4), "{bad:?}");
        }
        for good in ["a b", "Zoë", "名前", "😀", "عمر"] {
            assert!(is_name(good, 4), "{good:?}");
        }
    }

    #[test]
    fn what_was_stored_before_is_among_the_older_forms() {
        let [written, apart] = older_folded("Zoë");
        assert_eq!((written.as_str(), apart.as_str()), ("zoë", "zoe\u{308}"));
        assert_eq!(older_folded("ZOE\u{308}"), ["zoe\u{308}", "zoe\u{308}"]);
    }
}
