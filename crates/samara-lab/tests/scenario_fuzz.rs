//! No text, and nothing that is set over one, makes the reader panic; and what it accepts can be built or is refused.

use proptest::prelude::*;
use samara_lab::scenario::{ScenarioFile, builtin};

/// Everything that reading can do with a text.
fn exercise(text: &str, set: &str) {
    let Ok(mut file) = ScenarioFile::parse("fuzz", text, None) else { return };
    let _ = file.set(set).map_err(|error| error.to_string());
    match file.plan() {
        Ok(plan) => assert!(!plan.points.is_empty()),
        Err(error) => {
            assert!(!error.problems.is_empty());
            assert!(error.to_string().starts_with("error: "));
        }
    }
}

fn cut(text: &str, at: usize, len: usize, insert: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    let at = at % (letters.len() + 1);
    let end = (at + len).min(letters.len());
    letters[..at].iter().copied().chain(insert.chars()).chain(letters[end..].iter().copied()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn any_text(text in "\\PC{0,80}", set in "\\PC{0,30}") {
        exercise(&text, &set);
    }

    #[test]
    fn damaged_scenarios(which in 0usize..6, at: usize, len in 0usize..40, insert in "[\\PC\n]{0,12}", set in "[a-z0-9.]{0,20}=[\\PC]{0,10}") {
        let text = builtin::text(builtin::names().nth(which).unwrap()).unwrap();
        exercise(&cut(text, at, len, &insert), &set);
    }

    #[test]
    fn keys_set_to_anything(
        section in prop::sample::select(vec!["scenario", "network", "transport", "gossipsub", "workload", "report", "run.0", "expect"]),
        key in prop::sample::select(vec!["nodes", "topology", "latency", "kind", "publish", "seeds", "name", "set", "degree", "publisher", "x.y", "class"]),
        value in prop::sample::select(vec!["0", "-1", "1.5", "nan", "inf", "true", "[]", "{}", "\"\"", "99999999999999999999", "1979-05-27", "[[1]]", "{ kind = \"ring\" }", "ring", "é", "0x10", "18446744073709551615"]),
    ) {
        let text = builtin::text("peerdas").unwrap();
        exercise(text, &format!("{section}.{key}={value}"));
    }
}
