//! Names of quantisations, by number and in file names.

/// Flag in `general.file_type` that the converter guessed the type (llama.cpp `include/llama.h`,
/// `LLAMA_FTYPE_GUESSED`).
const GUESSED: u64 = 1024;

/// Returns the name of a `general.file_type`, as llama.cpp `include/llama.h` (`llama_ftype`) numbers them. Missing
/// numbers were removed there.
pub fn file_type_name(file_type: u64) -> Option<&'static str> {
    Some(match file_type & !GUESSED {
        0 => "F32",
        1 => "F16",
        2 => "Q4_0",
        3 => "Q4_1",
        7 => "Q8_0",
        8 => "Q5_0",
        9 => "Q5_1",
        10 => "Q2_K",
        11 => "Q3_K_S",
        12 => "Q3_K_M",
        13 => "Q3_K_L",
        14 => "Q4_K_S",
        15 => "Q4_K_M",
        16 => "Q5_K_S",
        17 => "Q5_K_M",
        18 => "Q6_K",
        19 => "IQ2_XXS",
        20 => "IQ2_XS",
        21 => "Q2_K_S",
        22 => "IQ3_XS",
        23 => "IQ3_XXS",
        24 => "IQ1_S",
        25 => "IQ4_NL",
        26 => "IQ3_S",
        27 => "IQ3_M",
        28 => "IQ2_S",
        29 => "IQ2_M",
        30 => "IQ4_XS",
        31 => "IQ1_M",
        32 => "BF16",
        36 => "TQ1_0",
        37 => "TQ2_0",
        38 => "MXFP4_MOE",
        39 => "NVFP4",
        40 => "Q1_0",
        41 => "Q2_0",
        _ => return None,
    })
}

/// Returns the quantisation in a file's name, in upper case: `Q4_K_M` in `Llama-3-8B.Q4_K_M.gguf`, `UD-Q4_K_XL` in
/// `gemma-3-UD-Q4_K_XL.gguf`. If there are several, the last one counts.
pub fn quantization_in_name(file_name: &str) -> Option<String> {
    let name = file_name.get(..file_name.len().checked_sub(5)?).filter(|_| {
        file_name.get(file_name.len().saturating_sub(5)..).is_some_and(|it| it.eq_ignore_ascii_case(".gguf"))
    });
    let upper = name.unwrap_or(file_name).to_ascii_uppercase();
    let words: Vec<&str> = upper.split(|it: char| !it.is_ascii_alphanumeric() && it != '_').collect();
    words.iter().enumerate().rev().find_map(|(index, word)| {
        let found = quantization_in_word(word)?;
        let dynamic = index.checked_sub(1).and_then(|it| words.get(it)) == Some(&"UD");
        Some(if dynamic { format!("UD-{found}") } else { found.to_owned() })
    })
}

/// Returns the whole word, or the part of it that follows one of its underscores.
fn quantization_in_word(word: &str) -> Option<&str> {
    let after_underscores = word.match_indices('_').filter_map(|(at, _)| word.get(at.checked_add(1)?..));
    std::iter::once(word).chain(after_underscores).find(|it| is_quantization(it))
}

fn is_quantization(word: &str) -> bool {
    if matches!(word, "F16" | "F32" | "BF16" | "FP16" | "FP32" | "MXFP4" | "MXFP4_MOE" | "NVFP4") {
        return true;
    }
    let mut parts = word.split('_');
    let (head, tail) = (parts.next().unwrap_or_default(), parts.collect::<Vec<_>>());
    let digits = ["IQ", "TQ", "Q"].into_iter().find_map(|it| head.strip_prefix(it));
    digits.is_some_and(|it| it.len() == 1 && it.bytes().all(|it| it.is_ascii_digit()))
        && (1..=3).contains(&tail.len())
        && tail.iter().all(|it| {
            matches!(*it, "0" | "1" | "4" | "8" | "K" | "S" | "M" | "L" | "XS" | "XXS" | "XL" | "XXL" | "NL")
        })
}

#[cfg(test)]
mod tests {
    use super::quantization_in_name;

    #[test]
    fn a_quantisation_is_found_in_the_names_that_publishers_use() {
        for (name, expected) in [
            ("Meta-Llama-3-8B-Instruct.Q4_K_M.gguf", Some("Q4_K_M")),
            ("qwen2.5-7b-instruct-q5_0-00001-of-00002.gguf", Some("Q5_0")),
            ("gemma-3-27b-it-UD-Q4_K_XL.gguf", Some("UD-Q4_K_XL")),
            ("model_iq3_xxs.GGUF", Some("IQ3_XXS")),
            ("gpt-oss-20b-mxfp4.gguf", Some("MXFP4")),
            ("phi-4-bf16.gguf", Some("BF16")),
            ("Q3-model.gguf", None),
            ("qwen3.gguf", None),
            ("é", None),
            ("", None),
        ] {
            assert_eq!(quantization_in_name(name).as_deref(), expected, "{name}");
        }
    }
}
