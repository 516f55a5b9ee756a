//! Finds the known word that a misspelt word probably meant.

/// Counts the letters that were added, left out, replaced or swapped with their neighbour (optimal string alignment).
pub fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    // Rows of the table that begin before the last letter of `a`, before this one, and after it.
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before[j - 2] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut above, row);
    }
    above.last().copied().unwrap_or_default()
}

/// Returns the one of `known` that `word` most likely meant. One letter in four may be wrong; in a short word, one
/// letter.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let most = (word.chars().count() / 4).max(1);
    let (least, near) = known.map(|it| (distance(it, word), it)).min()?;
    (least <= most).then_some(near)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_are_seen_through_and_other_words_are_not() {
        let known = ["context_size", "batch_size", "threads"];
        for (word, meant) in [
            ("contxt_size", Some("context_size")),
            ("thread", Some("threads")),
            ("bacth_size", Some("batch_size")),
            ("temperature", None),
            ("x", None),
        ] {
            assert_eq!(nearest(word, known.into_iter()), meant, "{word}");
        }
        assert_eq!(distance("abcd", "acbd"), 1);
    }
}
