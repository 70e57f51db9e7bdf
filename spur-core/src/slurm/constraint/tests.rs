use super::{BadConstraint, Constraint, check_name, parse};
use proptest::prelude::*;

fn read(text: &str) -> Constraint {
    parse(text).unwrap_or_else(|why| panic!("{text}: {why}"))
}

fn counts(constraint: &Constraint) -> Vec<(String, u32)> {
    let counts = constraint.counts().iter();
    counts.map(|(g, n)| (g.to_string(), *n)).collect()
}

#[test]
fn a_node_matches_as_in_slurm() {
    let table: &[(&str, &str, &[&str], &[&str])] = &[
        // constraint, shown, sets of features that match, that do not
        ("", "", &["", "a"], &[]),
        ("a", "a", &["a", "b a"], &["", "b"]),
        ("a&b", "a&b", &["a b"], &["a", "b", ""]),
        ("a,b", "a&b", &["a b"], &["a"]),
        ("a|b", "a|b", &["a", "b", "a b"], &["c", ""]),
        // From left to right: no operator binds more strongly.
        ("a&b|c", "a&b|c", &["c", "a b"], &["a", "b"]),
        ("a|b&c", "a|b&c", &["a c", "b c"], &["a", "c"]),
        ("a&(b|c)", "a&(b|c)", &["a b", "a c"], &["b c", "a"]),
        ("(a|b)&(c|d)", "(a|b)&(c|d)", &["a d", "b c"], &["a b", "c"]),
        ("[a|b]", "[a|b]", &["a", "b"], &["c"]),
        ("[a]", "a", &["a"], &["b"]),
        (
            "x&[a|(b&c)]",
            "x&[a|(b&c)]",
            &["x a", "x b c"],
            &["a", "x b"],
        ),
        ("[a|b]&x", "x&[a|b]", &["x a"], &["a", "x"]),
        // Counts say how many nodes have it, so any node may be one of the others.
        ("a*2", "[a*2]", &["a", ""], &[]),
        ("[a*2&b*1]", "[a*2&b*1]", &["a", "c"], &[]),
        ("x&[a*2&(b|c)*1]", "x&[a*2&(b|c)*1]", &["x"], &["a"]),
        ("a&", "a", &["a"], &["b"]),
        ("a b", "a b", &[], &["a b"]),
        ("!a", "!a", &[], &["a", ""]),
    ];
    for (text, shown, yes, no) in table {
        let constraint = read(text);
        assert_eq!(&constraint.to_string(), shown, "{text}");
        let matches = |set: &str| constraint.matches(&set.split(' ').collect::<Vec<_>>());
        yes.iter()
            .for_each(|set| assert!(matches(set), "{text} with {set:?}"));
        no.iter()
            .for_each(|set| assert!(!matches(set), "{text} with {set:?}"));
    }
}

#[test]
fn counts_and_alternatives_are_of_the_whole_job() {
    assert_eq!(counts(&read("a*4")), [("a".to_owned(), 4)]);
    let several = read("[rack1*2&(rack2|rack3)*4]");
    let expected = [("rack1".to_owned(), 2), ("(rack2|rack3)".to_owned(), 4)];
    assert_eq!(counts(&several), expected);
    assert!(several.alternatives().is_empty());
    let choice = read("ib&[a|(b&c)]");
    let shown: Vec<String> = choice
        .alternatives()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(shown, ["a", "(b&c)"]);
    assert_eq!(choice.names().collect::<Vec<_>>(), ["ib", "a", "b", "c"]);
}

#[test]
fn what_slurm_refuses_is_refused() {
    use BadConstraint as Bad;
    let table = [
        ("&a", Bad::NoFeature('&')),
        ("|a", Bad::NoFeature('|')),
        ("a&&b", Bad::NoFeature('&')),
        ("(a", Bad::Unbalanced),
        ("a)", Bad::Unbalanced),
        ("[a", Bad::Unbalanced),
        ("a]", Bad::Unbalanced),
        ("()", Bad::Unbalanced),
        ("[]", Bad::Unbalanced),
        ("((a|b)&c)", Bad::Unbalanced),
        ("([a|b])", Bad::Unbalanced),
        ("[a|[b]]", Bad::Unbalanced),
        ("a(b)", Bad::Unbalanced),
        ("[a|b]&[c|d]", Bad::Brackets),
        ("(a)b", Bad::Unexpected("b".to_owned())),
        ("a*", Bad::Count),
        ("a*0", Bad::Count),
        ("a*x", Bad::Count),
        ("a*-1", Bad::Count),
        ("*2", Bad::Count),
        ("(a*2|b)", Bad::Count),
        ("a*4294967296", Bad::Count),
        ("a*2&b", Bad::LooseCount),
        ("(a&b)*2", Bad::LooseCount),
        ("[a&b]", Bad::CountMissing),
        ("[a*2&b]", Bad::CountMissing),
        ("[a*2|b*1]", Bad::CountInChoice),
        ("[a|b&c]", Bad::Mixed),
    ];
    for (text, why) in table {
        assert_eq!(parse(text), Err(why), "{text}");
    }
    let long = vec!["a"; 65].join("&");
    assert_eq!(parse(&long), Err(BadConstraint::TooMany));
    assert_eq!(parse(&"a".repeat(5000)), Err(BadConstraint::TooMany));
}

#[test]
fn a_feature_that_cannot_be_asked_for_is_no_name() {
    for name in ["a100", "ib-ndr", "rack_1.2", "cc8.0", "gpu:h200"] {
        assert_eq!(check_name(name), Ok(()));
    }
    for name in ["", "a b", "a&b", "a*2", "[a]", "a,b"] {
        let why = check_name(name).unwrap_err().to_string();
        assert_eq!(
            why,
            format!("feature {name:?}: a name has no blanks and none of &,|()[]*")
        );
    }
}

proptest! {
    #[test]
    fn what_is_shown_means_the_same(text in "[ab&|,()\\[\\]*2]{0,14}") {
        if let Ok(constraint) = parse(&text) {
            prop_assert_eq!(parse(&constraint.to_string()), Ok(constraint.clone()));
        }
    }

    #[test]
    fn no_text_panics(text: String) {
        let _any = parse(&text);
    }
}
