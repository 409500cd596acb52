//! The steps of `cargo xtask test`, one after the other until one fails.

use crate::Faults;
use crate::files::Tree;
use crate::{bugs, clauses, commands, dependencies, tidy};

/// What a good step has to say, and how many tests it ran.
struct Passed {
    summary: Option<String>,
    tests: u64,
}

struct Step {
    name: &'static str,
    run: fn() -> Result<Passed, Faults>,
}

/// Cheap steps first.
const STEPS: [Step; 10] = [
    Step { name: "format", run: || quiet(commands::format().run()) },
    Step { name: "clippy", run: || quiet(commands::clippy().run()) },
    Step { name: "tidy", run: || told(tidy::check(&Tree::project())) },
    Step { name: "dependencies", run: || told(dependencies::check()) },
    Step { name: "clauses", run: || told(clauses::check(&Tree::project())) },
    Step { name: "bugs", run: || told(bugs::check(&Tree::project())) },
    Step { name: "tests", run: || counted(commands::tests().run_tests()) },
    Step { name: "documentation", run: || quiet(commands::documentation().run()) },
    Step { name: "examples", run: || told(examples()) },
    Step { name: "loom models", run: || counted(commands::loom().run_tests()) },
];

/// What takes too long for every day, after what does not.
const PROOFS: [Step; 5] = [
    Step { name: "large models", run: || counted(commands::large_models().run_tests()) },
    Step { name: "many seeds", run: || counted(commands::many_seeds().run_tests()) },
    Step { name: "AddressSanitizer", run: || counted(commands::asan(&[]).run_tests()) },
    Step { name: "LeakSanitizer", run: || counted(commands::leaks().run_tests()) },
    Step {
        name: "bugs on purpose",
        run: || {
            if bugs::hunt(&[]) {
                told(Ok("every bug is found".into()))
            } else {
                Err(vec!["a bug survives".into()])
            }
        },
    },
];

/// Runs the steps of every day; true if all have passed.
pub(crate) fn test() -> bool {
    run(&STEPS)
}

/// Runs everything; true if all has passed.
pub(crate) fn prove() -> bool {
    run(&STEPS) && run(&PROOFS)
}

fn run(steps: &[Step]) -> bool {
    let all = steps.len();
    let mut tests = 0;
    for (at, step) in steps.iter().enumerate() {
        let place = format!("step {} of {all}, {}", at + 1, step.name);
        eprintln!("xtask: {place}");
        match (step.run)() {
            Ok(passed) => {
                passed.summary.iter().for_each(|summary| eprintln!("{summary}"));
                tests += passed.tests;
            }
            Err(faults) => {
                faults.iter().for_each(|fault| eprintln!("{fault}"));
                eprintln!("xtask: FAILED at {place}");
                return false;
            }
        }
    }
    println!("tests: {tests} passed, 0 failed");
    println!("xtask: all {all} steps passed");
    true
}

/// Every example runs by itself and ends well.
fn examples() -> Result<String, Faults> {
    let names = dependencies::examples(&dependencies::metadata()?, "turnkeep");
    for name in &names {
        commands::example(name).run()?;
    }
    Ok(format!("{} examples end well", names.len()))
}

fn quiet(result: Result<(), Faults>) -> Result<Passed, Faults> {
    result.map(|()| Passed { summary: None, tests: 0 })
}

fn told(result: Result<String, Faults>) -> Result<Passed, Faults> {
    result.map(|summary| Passed { summary: Some(summary), tests: 0 })
}

fn counted(result: Result<u64, Faults>) -> Result<Passed, Faults> {
    result.map(|tests| Passed { summary: None, tests })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_step_that_fails_is_the_last_to_run() {
        let good = || Step { name: "good", run: || counted(Ok(2)) };
        let bad = || Step { name: "bad", run: || Err(vec!["why".into()]) };
        let never = || Step { name: "never", run: || panic!("must not run") };
        assert!(run(&[good(), good()]));
        assert!(!run(&[good(), bad(), never()]));
    }
}
