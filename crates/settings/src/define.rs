//! The macro that makes types and readers of the table of settings.

/// Makes [`Settings`](crate::Settings), its sections and what is known about each setting. A setting without a German text
/// does not compile.
macro_rules! settings {
    ($(
        $group:literal, $group_de:literal $section:ident: $Section:ident {
            $($(#[doc = $doc:literal])+ #[de = $doc_de:literal] $name:ident: $kind:ty = $default:literal;)+
        }
    )+) => {
        /// All settings, checked one by one; [`Settings::check`] looks at them together. A part of the gateway gets the
        /// sections that it needs.
        #[derive(Debug, Clone)]
        pub struct Settings { $(#[doc = concat!("Settings of the section \"", $group, "\".")] pub $section: $Section,)+ }

        $(
            #[doc = concat!("Settings of the section \"", $group, "\".")]
            #[derive(Debug, Clone)]
            pub struct $Section { $($(#[doc = $doc])+ pub $name: $kind,)+ }

            impl Default for $Section {
                fn default() -> Self {
                    Self { $($name: <$kind as Value>::parse($default).expect("a test reads all defaults"),)+ }
                }
            }
        )+

        impl Settings {
            /// Names of all settings, as environment variables.
            pub fn names() -> Vec<String> {
                vec![$($(stringify!($name).to_uppercase(),)+)+]
            }

            /// Name, meaning and default of all settings.
            pub fn about() -> Vec<(String, &'static str, &'static str)> {
                vec![$($((stringify!($name).to_uppercase(), concat!($($doc,)+).trim_ascii_start(), $default),)+)+]
            }

            /// The German texts of all settings.
            pub fn german() -> Vec<German> {
                vec![$($(German {
                    name: stringify!($name).to_uppercase(),
                    group: ($group, $group_de),
                    doc: (concat!($($doc,)+).trim_ascii_start(), $doc_de),
                    allowed: (<$kind as Value>::ALLOWED, <$kind as Value>::ALLOWED_DE),
                },)+)+]
            }

            /// `<NAME>_FILE` of those that may be given as files.
            pub fn file_names() -> Vec<String> {
                let all = [$($((stringify!($name), <$kind as Value>::IN_FILE),)+)+];
                all.iter().filter(|(_, it)| *it).map(|(name, _)| name.to_uppercase() + "_FILE").collect()
            }

            /// Reads every setting.
            ///
            /// # Errors
            /// The first setting that is malformed or unknown, with the values that are allowed.
            pub fn load(sources: &Sources) -> Result<(Self, Vec<Entry>), SettingsError> {
                sources.refuse_unknown(&[Self::names(), Self::file_names()].concat())?;
                let mut entries = Vec::new();
                $($(
                    let $name: $kind = {
                        let name = stringify!($name).to_uppercase();
                        let (text, origin) = sources.get(&name, $default, <$kind as Value>::IN_FILE)?;
                        let value = <$kind as Value>::parse(&text).ok_or_else(|| SettingsError::Malformed {
                            name: name.clone(),
                            origin,
                            allowed: <$kind as Value>::ALLOWED,
                        })?;
                        let doc = concat!($($doc,)+).trim_start();
                        let shown = value.show();
                        let text = (!<$kind as Value>::IN_FILE || shown == text).then_some(text);
                        entries.push(Entry {
                            name, group: $group, doc, default: $default,
                            allowed: <$kind as Value>::ALLOWED, value: shown, text, origin,
                        });
                        value
                    };
                )+)+
                Ok((Self { $($section: $Section { $($name,)+ },)+ }, entries))
            }
        }
    };
}
pub(crate) use settings;

#[cfg(test)]
mod tests {
    use crate::Settings;

    fn sorted(mut parts: Vec<&str>) -> Vec<&str> {
        parts.sort_unstable();
        parts
    }

    fn code(text: &str) -> Vec<&str> {
        sorted(text.split('`').skip(1).step_by(2).collect())
    }

    fn numbers(text: &str) -> Vec<&str> {
        sorted(text.split(|it: char| !it.is_ascii_digit()).filter(|it| !it.is_empty()).collect())
    }

    #[test]
    fn german_texts_have_the_code_and_the_numbers_of_the_english_ones() {
        let all = Settings::german();
        assert_eq!(all.len(), Settings::names().len());
        for (en, de) in all.iter().flat_map(|it| [it.doc, it.allowed]) {
            assert_eq!(code(en), code(de), "{en}: {de}");
            assert_eq!(numbers(en), numbers(de), "{en}: {de}");
            assert_ne!(en, de);
        }
    }
}
