//! Compares the clauses that the project keeps with the names of its tests.

use std::collections::{BTreeMap, BTreeSet};

use crate::Faults;
use crate::files::{File, Tree};
use crate::source;

const CONTRACT: &str = "docs/contract.md";

/// Words that make an id together with a number, also while no clause of theirs is kept.
const SECTIONS: [&str; 31] = [
    "GATE", "LANE", "YIELD", "REENT", "JOIN", "WORK", "DONE", "ERR", "DOM", "TIMER", "DRAIN", "FAULT",
    "STOP", "STAT", "ACT", "CHAN", "FLOW", "OWN", "MOVE", "LINK", "SEC", "ADM", "ROOT", "PUB", "RAW", "KEEP",
    "CMD", "COMP", "TIME", "PLUG", "PY",
];

/// A row of the table: a kept clause and the tests that show it.
struct Clause<'a> {
    id: &'a str,
    tests: Vec<&'a str>,
    line: usize,
}

/// A test of the tree, or a program that must not compile.
struct Named<'a> {
    name: String,
    file: &'a str,
    line: usize,
}

/// Looks for clauses without their tests and for tests without their clause.
pub(crate) fn check(tree: &Tree) -> Result<String, Faults> {
    let Some(contract) = tree.file(CONTRACT) else {
        return Err(vec![format!("{CONTRACT}: there is no such file; it lists the kept clauses, one a row")]);
    };
    let clauses = clauses(contract);
    if clauses.is_empty() {
        return Err(vec![format!("{CONTRACT}: no row of the form | GATE-1 | sentence | `test_name` |")]);
    }
    let tests: Vec<Named> = tree.rust().flat_map(named).collect();
    let mut faults = clause_faults(&clauses, &tests);
    faults.extend(test_faults(&clauses, &tests));
    if faults.is_empty() { Ok(summary(&clauses, &tests)) } else { Err(faults) }
}

/// The contract with the tests of each row as the tree has them: those that bear its id, and those that it names.
pub(crate) fn listed(tree: &Tree) -> Option<(&'static str, String)> {
    let contract = tree.file(CONTRACT)?;
    let sections = sections(&clauses(contract));
    let tests: BTreeSet<String> = tree.rust().flat_map(named).map(|test| test.name).collect();
    let rows = contract.text.lines().enumerate().map(|(at, row)| match clause(row, at + 1) {
        Some(clause) => with_tests(row, &clause, &tests, &sections),
        None => row.to_owned(),
    });
    Some((CONTRACT, rows.map(|row| row + "\n").collect()))
}

fn with_tests(row: &str, clause: &Clause, tests: &BTreeSet<String>, sections: &BTreeSet<&str>) -> String {
    let is_of =
        |name: &&String| clause.tests.contains(&name.as_str()) || ids(name, sections).contains(clause.id);
    let names: Vec<String> = tests.iter().filter(is_of).map(|name| format!("`{name}`")).collect();
    let sentence = row.trim_end().trim_end_matches('|').rsplit_once('|').map_or(row, |(before, _)| before);
    format!("{sentence}| {} |", names.join(", "))
}

fn summary(clauses: &[Clause], tests: &[Named]) -> String {
    let bearing = tests.iter().filter(|test| !ids(&test.name, &sections(clauses)).is_empty()).count();
    format!("{} clauses are kept; {bearing} tests bear their ids", clauses.len())
}

fn clauses(contract: &File) -> Vec<Clause<'_>> {
    let rows = contract.text.lines().enumerate();
    rows.filter_map(|(at, row)| clause(row, at + 1)).collect()
}

fn clause(row: &str, line: usize) -> Option<Clause<'_>> {
    let (id, rest) = row.trim().strip_prefix('|')?.split_once('|')?;
    let id = id.trim();
    let (section, number) = id.split_once('-')?;
    let word = !section.is_empty() && section.bytes().all(|byte| byte.is_ascii_uppercase());
    if !word || !is_number(number) {
        return None;
    }
    let rest = rest.trim_end().trim_end_matches('|');
    let last = rest.rsplit_once('|').map_or("", |(_, last)| last);
    // The odd parts between backticks are what they enclose.
    let tests = last.split('`').skip(1).step_by(2).map(|name| name.trim().trim_end_matches(".rs")).collect();
    Some(Clause { id, tests, line })
}

fn named(file: &File) -> Vec<Named<'_>> {
    let path = file.path.as_str();
    let tests = source::tests(&file.text).into_iter();
    let mut named: Vec<_> =
        tests.map(|test| Named { name: test.name, file: path, line: test.line }).collect();
    if let Some((_, program)) = path.rsplit_once('/').filter(|(folder, _)| is_ui(folder)) {
        named.push(Named { name: program.trim_end_matches(".rs").into(), file: path, line: 1 });
    }
    named
}

/// Whether a folder holds programs whose compilation is the test.
fn is_ui(folder: &str) -> bool {
    format!("/{folder}/").contains("/tests/ui/")
}

fn clause_faults(clauses: &[Clause], tests: &[Named]) -> Faults {
    let names: BTreeSet<&str> = tests.iter().map(|test| test.name.as_str()).collect();
    let mut lines = BTreeMap::new();
    let mut faults = Vec::new();
    for clause in clauses {
        let place = format!("{CONTRACT}:{}: {}", clause.line, clause.id);
        if let Some(first) = lines.insert(clause.id, clause.line) {
            faults.push(format!("{place} is listed on line {first} already"));
        }
        let unknown = clause.tests.iter().filter(|name| !names.contains(*name));
        faults.extend(unknown.map(|name| format!("{place}: there is no test `{name}`")));
        if clause.tests.is_empty() {
            faults.push(format!("{place} names no test; write it in backticks in the last column"));
        } else if !clause.tests.iter().any(|name| ids(name, &sections(clauses)).contains(clause.id)) {
            let start = clause.id.to_lowercase().replace('-', "_");
            faults.push(format!("{place}: none of its tests bears its id, as in `{start}_…`"));
        }
    }
    faults
}

fn test_faults(clauses: &[Clause], tests: &[Named]) -> Faults {
    let sections = sections(clauses);
    let listed: BTreeSet<&str> = clauses.iter().map(|clause| clause.id).collect();
    let mut faults = Vec::new();
    for Named { name, file, line } in tests {
        for id in ids(name, &sections).iter().filter(|id| !listed.contains(id.as_str())) {
            faults.push(format!("{file}:{line}: `{name}` bears {id}, which {CONTRACT} does not list"));
        }
    }
    faults
}

fn sections<'a>(clauses: &[Clause<'a>]) -> BTreeSet<&'a str> {
    let listed = clauses.iter().filter_map(|clause| Some(clause.id.split_once('-')?.0));
    listed.chain(SECTIONS).collect()
}

/// The ids in a name: `loom_gate_3_…` bears GATE-3, `join_6_a_…` JOIN-6.
fn ids(name: &str, sections: &BTreeSet<&str>) -> BTreeSet<String> {
    let words: Vec<&str> = name.split('_').collect();
    let pairs = words.windows(2).map(|pair| (pair[0].to_uppercase(), pair[1]));
    pairs
        .filter(|(section, number)| sections.contains(section.as_str()) && is_number(number))
        .map(|(section, number)| format!("{section}-{number}"))
        .collect()
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a contract of these rows beside a Rust file and a program that must not compile.
    fn check_with(rows: &str, rust: &str) -> Result<String, Faults> {
        let contract = format!("# Contract\n\n| id | clause | tests |\n| --- | --- | --- |\n{rows}");
        let ui = "crates/a/tests/ui/yield_2_stale.rs";
        check(&Tree::of(&[(CONTRACT, &contract), ("crates/a/src/gate.rs", rust), (ui, "//! No.\n")]))
    }

    fn faults(rows: &str, rust: &str) -> Faults {
        check_with(rows, rust).unwrap_err()
    }

    const YIELD: &str = "| YIELD-2 | No state is kept | `yield_2_stale.rs` |\n";

    #[test]
    fn a_row_gets_the_tests_that_bear_its_id() {
        let row = "| GATE-1 | Turns never overlap. | `gate_1_gone` |";
        let rust = "#[test]\nfn gate_1_two() {}\n#[test]\nfn gate_12_other() {}\n";
        let tree = Tree::of(&[(CONTRACT, row), ("crates/a/src/gate.rs", rust)]);
        let (_, text) = listed(&tree).unwrap();
        assert_eq!(text, "| GATE-1 | Turns never overlap. | `gate_1_two` |\n");
    }

    #[test]
    fn clauses_and_tests_that_agree_pass() {
        let rows = format!("| GATE-3 | One a time, a \\| b | `gate_3_a`, `loom_gate_3` |\n{YIELD}");
        let rust = "#[test]\nfn gate_3_a() {}\n#[test]\nfn loom_gate_3() {}\n#[test]\nfn other_9() {}\n";
        assert_eq!(check_with(&rows, rust).unwrap(), "2 clauses are kept; 3 tests bear their ids");
    }

    #[test]
    fn a_missing_or_empty_contract_is_told() {
        let none = check(&Tree::default()).unwrap_err();
        assert!(none[0].starts_with("docs/contract.md: there is no such file"), "{none:?}");
        let empty = faults("", "");
        assert!(empty[0].starts_with("docs/contract.md: no row"), "{empty:?}");
    }

    #[test]
    fn a_clause_whose_test_is_gone_is_told() {
        let rows = format!("{YIELD}| GATE-3 | One a time | `gate_3_a`, `gate_3_b` |\n");
        let rust = "#[test] fn gate_3_a() {}\nfn gate_3_b() {} // #[test]\n";
        assert_eq!(faults(&rows, rust), ["docs/contract.md:6: GATE-3: there is no test `gate_3_b`"]);
    }

    #[test]
    fn a_clause_without_a_test_of_its_own_is_told() {
        let rows = format!("{YIELD}| GATE-3 | One a time | |\n| GATE-4 | In order | `lane_1_a` |\n");
        let rows = format!("{rows}| LANE-1 | Two | `lane_1_a` |\n| LANE-1 | Two | `lane_1_a` |\n");
        let want = [
            "docs/contract.md:6: GATE-3 names no test; write it in backticks in the last column",
            "docs/contract.md:7: GATE-4: none of its tests bears its id, as in `gate_4_…`",
            "docs/contract.md:9: LANE-1 is listed on line 8 already",
        ];
        assert_eq!(faults(&rows, "#[test] fn lane_1_a() {}"), want);
    }

    #[test]
    fn a_test_whose_clause_is_not_listed_is_told() {
        let rust =
            "\n#[test]\nfn prop_gate_3_a() {}\n#[tokio::test]\nasync fn join_6_a_b() {}\nfn lane_1() {}\n";
        let want = [
            "crates/a/src/gate.rs:3: `prop_gate_3_a` bears GATE-3, which docs/contract.md does not list",
            "crates/a/src/gate.rs:5: `join_6_a_b` bears JOIN-6, which docs/contract.md does not list",
        ];
        assert_eq!(faults(YIELD, rust), want);
        let rows = "| GATE-3 | One a time | `gate_3_a` |\n";
        let ui = "crates/a/tests/ui/yield_2_stale.rs:1: `yield_2_stale` bears YIELD-2, which docs/contract.md does not list";
        assert_eq!(faults(rows, "#[test] fn gate_3_a() {}"), [ui]);
    }

    #[test]
    fn an_id_is_a_section_and_a_whole_number() {
        let sections = BTreeSet::from(["GATE", "LANE"]);
        let found = |name| ids(name, &sections).into_iter().collect::<Vec<_>>();
        assert_eq!(found("loom_gate_3_lane_14"), ["GATE-3", "LANE-14"]);
        for name in ["gate", "gate_x_3", "agate_3", "utf_8", "lane_64kib", "gate_"] {
            assert_eq!(found(name), [""; 0], "{name}");
        }
    }
}
