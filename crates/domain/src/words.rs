//! Closed lists of words: enums whose values are written as one fixed word each, in the database, in answers, in
//! settings and in metrics. [`words!`](crate::words!) declares the enum and its words together.

use serde::{Deserialize, Deserializer, de::Error};

#[doc(hidden)]
pub use serde;

/// Declares an enum together with the word of each value.
///
/// The enum is `Copy` and comparable, and it has
/// - `ALL` and `WORDS`: all values and all words, in the order of the declaration,
/// - `as_str` and `Display`, which write the word,
/// - `parse`, which reads the word and, after `|`, further words for the same value,
/// - serde's traits, which write and read the word as text.
///
/// Words are stored and sent, so a word never changes once it exists. Further derives are added as attributes.
///
/// ```
/// gantry_domain::words! {
///     /// Where a switch stands.
///     #[derive(PartialOrd, Ord)]
///     pub enum Switch {
///         /// Current flows.
///         On = "on" | "1",
///         /// No current flows.
///         Off = "off",
///     }
/// }
/// assert_eq!(Switch::parse("1"), Some(Switch::On));
/// assert_eq!(Switch::WORDS, ["on", "off"]);
/// ```
#[macro_export]
macro_rules! words {
    (
        $(#[$about:meta])*
        $vis:vis enum $type:ident {
            $($(#[$about_value:meta])* $value:ident = $word:literal $(| $other:literal)*),+ $(,)?
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        $vis enum $type {
            $($(#[$about_value])* $value,)+
        }

        impl $type {
            /// All values, in the order of their declaration.
            $vis const ALL: [Self; [$($word),+].len()] = [$(Self::$value),+];
            /// The words of [`Self::ALL`], in the same order.
            $vis const WORDS: [&'static str; [$($word),+].len()] = [$($word),+];

            /// Returns the word of this value.
            $vis const fn as_str(self) -> &'static str {
                match self { $(Self::$value => $word,)+ }
            }

            /// Returns the value that is written as `text`; `None` if there is none.
            $vis fn parse(text: &str) -> Option<Self> {
                match text {
                    $($word $(| $other)* => Some(Self::$value),)+
                    _ => None,
                }
            }
        }

        impl ::std::fmt::Display for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl $crate::words::serde::Serialize for $type {
            fn serialize<S: $crate::words::serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.as_str())
            }
        }

        impl<'de> $crate::words::serde::Deserialize<'de> for $type {
            fn deserialize<D: $crate::words::serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                $crate::words::read(from, Self::parse, &Self::WORDS)
            }
        }
    };
}

/// Returns the words as an English list, for messages: `user, admin or owner`.
pub fn either(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [word] => (*word).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// Reads a value of [`words!`](crate::words!) from a text.
///
/// # Errors
/// It is no text, or `parse` does not know it; the error lists `words`.
#[doc(hidden)]
pub fn read<'de, T, D: Deserializer<'de>>(
    from: D,
    parse: fn(&str) -> Option<T>,
    words: &'static [&'static str],
) -> Result<T, D::Error> {
    let text = String::deserialize(from)?;
    parse(&text).ok_or_else(|| D::Error::unknown_variant(&text, words))
}

#[cfg(test)]
mod tests {
    words! {
        /// A colour.
        #[derive(Default)]
        enum Colour {
            /// As blood.
            Red = "red" | "crimson",
            /// As the sky.
            #[default]
            Blue = "blue",
        }
    }

    #[test]
    fn each_word_is_read_as_it_is_written() {
        assert_eq!(Colour::ALL.map(|it| Colour::parse(it.as_str())), Colour::ALL.map(Some));
        assert_eq!(Colour::ALL.map(|it| it.to_string()), Colour::WORDS);
        assert_eq!(super::either(&Colour::WORDS), "red or blue");
        assert_eq!(super::either(&["a", "b", "c"]), "a, b or c");
        assert_eq!(Colour::parse("crimson"), Some(Colour::Red));
        assert_eq!(Colour::parse("Red"), None);
        assert_eq!(serde_json::to_string(&Colour::default()).unwrap(), "\"blue\"");
        assert_eq!(serde_json::from_str::<Colour>("\"red\"").unwrap(), Colour::Red);
        let said = serde_json::from_str::<Colour>("\"green\"").unwrap_err().to_string();
        assert!(said.contains("unknown variant `green`, expected `red` or `blue`"), "{said}");
    }
}
