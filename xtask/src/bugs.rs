//! Bugs put in on purpose: each is applied to a copy of the project, and one of its suites must find it.
//!
//! A file of `bugs/` says what is wrong in a paragraph, then `clause:`, `file:` and one `suite:` a line, the narrowest
//! first, then the lines that are there between `--- was` and `--- is`, and the lines of the bug. A suite is what
//! `cargo test` is given; `loom: FILTER` is the scheduler's models of that name.

use std::env;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Faults;
use crate::files::{File, Tree, root};

/// A suite that takes longer hangs, which is a way to be red.
const PATIENCE: Duration = Duration::from_secs(120);

/// A bug, as its file says.
#[derive(Debug)]
struct Bug {
    name: String,
    clause: String,
    file: String,
    suites: Vec<String>,
    was: String,
    is: String,
}

impl Bug {
    fn read(name: &str, text: &str) -> Result<Self, String> {
        let bad = |what: &str| format!("bugs/{name}.bug: {what}");
        let (head, change) = text.split_once("\n--- was\n").ok_or_else(|| bad("there is no `--- was`"))?;
        let (was, is) = change.split_once("\n--- is\n").ok_or_else(|| bad("there is no `--- is`"))?;
        let all = |key: &str| -> Vec<String> {
            head.lines()
                .filter_map(|line| line.strip_prefix(key))
                .map(|value| value.trim().to_owned())
                .collect()
        };
        let one = |key: &str| all(key).pop().ok_or_else(|| bad(&format!("there is no `{key}`")));
        let suites = all("suite:");
        if suites.is_empty() {
            return Err(bad("no `suite:` is to find it"));
        }
        let (clause, file) = (one("clause:")?, one("file:")?);
        Ok(Self {
            name: name.into(),
            clause,
            file,
            suites,
            was: was.into(),
            is: is.trim_end_matches('\n').into(),
        })
    }

    /// The file with the bug in it.
    fn apply(&self, text: &str) -> Result<String, String> {
        match text.matches(&self.was).count() {
            1 => Ok(text.replace(&self.was, &self.is)),
            count => Err(format!(
                "bugs/{}.bug: {} has the lines {count} times, not once; bring them up to date",
                self.name, self.file
            )),
        }
    }
}

/// What became of a bug.
enum Verdict {
    Found(String),
    Survived,
    DoesNotBuild(String),
}

/// All bugs, or what is wrong with their files.
fn bugs(tree: &Tree) -> Result<Vec<Bug>, Faults> {
    let mut bugs = Vec::new();
    let mut faults = Vec::new();
    for File { path, text } in tree.bugs() {
        let name = Path::new(path).file_stem().map_or_else(String::new, |name| name.to_string_lossy().into());
        let applied = Bug::read(&name, text).and_then(|bug| {
            let there =
                text_of(tree, &bug.file).ok_or_else(|| format!("{path}: there is no {}", bug.file))?;
            bug.apply(there).map(|_| bug)
        });
        match applied {
            Ok(bug) => bugs.push(bug),
            Err(fault) => faults.push(fault),
        }
    }
    if faults.is_empty() { Ok(bugs) } else { Err(faults) }
}

fn text_of<'a>(tree: &'a Tree, path: &str) -> Option<&'a str> {
    tree.file(path).map(|file| file.text.as_str())
}

/// Whether every bug can still be put in.
pub(crate) fn check(tree: &Tree) -> Result<String, Faults> {
    let bugs = bugs(tree)?;
    if bugs.len() < 24 {
        return Err(vec![format!("bugs: there are {}, of 24 at least", bugs.len())]);
    }
    Ok(format!("{} bugs can be put in", bugs.len()))
}

/// Puts the bugs of these names in, all if none is named, one after another, and looks who finds them.
pub(crate) fn hunt(names: &[&str]) -> bool {
    let tree = Tree::project();
    let hunted = bugs(&tree).and_then(|bugs| {
        let copy = target().join("bugs");
        copy_project(&copy.join("tree"))
            .map_err(|error| vec![format!("the project cannot be copied: {error}")])?;
        let chosen = bugs.into_iter().filter(|bug| names.is_empty() || names.contains(&bug.name.as_str()));
        Ok(chosen.map(|bug| (hunt_one(&bug, &copy, &tree), bug)).collect::<Vec<_>>())
    });
    match hunted {
        Ok(hunted) => report(&hunted),
        Err(faults) => {
            faults.iter().for_each(|fault| eprintln!("{fault}"));
            false
        }
    }
}

fn report(hunted: &[(Verdict, Bug)]) -> bool {
    println!("| bug | clause | found by |\n|---|---|---|");
    let mut found = 0;
    for (verdict, bug) in hunted {
        let by = match verdict {
            Verdict::Found(by) => {
                found += 1;
                format!("`{by}`")
            }
            Verdict::Survived => "NOBODY".to_owned(),
            Verdict::DoesNotBuild(suite) => format!("does not build: `{suite}`"),
        };
        println!("| {} | {} | {by} |", bug.name, bug.clause);
    }
    println!("bugs: {found} of {} found", hunted.len());
    found == hunted.len() && found > 0
}

fn hunt_one(bug: &Bug, copy: &Path, tree: &Tree) -> Verdict {
    eprintln!("xtask: bug {}", bug.name);
    let file = copy.join("tree").join(&bug.file);
    let whole = text_of(tree, &bug.file).unwrap_or_default();
    let Ok(Ok(())) = bug.apply(whole).map(|text| fs::write(&file, text)) else {
        return Verdict::DoesNotBuild(bug.file.clone());
    };
    let verdict = look(bug, copy);
    // The next build must see a change.
    let _ = fs::write(&file, whole);
    verdict
}

fn look(bug: &Bug, copy: &Path) -> Verdict {
    for suite in &bug.suites {
        let (cargo, own) = arguments(suite);
        let mut build = command(copy, suite);
        let built = build.args(&cargo).arg("--no-run").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !built.is_ok_and(|status| status.success()) {
            return Verdict::DoesNotBuild(suite.clone());
        }
        let mut test = command(copy, suite);
        test.args(&cargo).arg("--").args(&own).stdout(Stdio::null()).stderr(Stdio::null());
        let ended = test.process_group(0).spawn().map(|child| in_time(child, PATIENCE));
        match ended {
            Ok(Some(true)) => {}
            Ok(Some(false)) => return Verdict::Found(suite.clone()),
            Ok(None) => return Verdict::Found(format!("{suite}, which hangs")),
            Err(_) => return Verdict::DoesNotBuild(suite.clone()),
        }
    }
    Verdict::Survived
}

/// What cargo is given, and what the tests are.
fn arguments(suite: &str) -> (Vec<String>, Vec<String>) {
    let (cargo, own) = match suite.strip_prefix("loom:") {
        Some(filter) => ("test -p turnkeep-scheduler --lib --profile model", filter),
        None => {
            let is_filter = |word: &str| !word.starts_with('-');
            let words: Vec<&str> = suite.split(' ').collect();
            // A filter stands behind a name that an option has taken.
            match words.as_slice() {
                [.., before, last] if is_filter(last) && !matches!(*before, "-p" | "--test") => {
                    (suite.strip_suffix(last).unwrap_or(suite), *last)
                }
                _ => (suite, ""),
            }
        }
    };
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let mut cargo = words(cargo);
    if cargo.first().is_none_or(|first| first != "test") {
        cargo.insert(0, "test".to_owned());
    }
    (cargo, words(own))
}

fn command(copy: &Path, suite: &str) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let folder = if suite.starts_with("loom:") { "loom" } else { "target" };
    command
        .current_dir(copy.join("tree"))
        .env("CARGO_TARGET_DIR", copy.join(folder))
        .env("RUST_BACKTRACE", "0");
    if folder == "loom" {
        command.env("RUSTFLAGS", "--cfg turnkeep_loom");
    }
    command
}

/// Whether it ended well; `None` if it had to be ended.
fn in_time(mut child: Child, patience: Duration) -> Option<bool> {
    let began = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status.success()),
            Ok(None) if began.elapsed() < patience => std::thread::sleep(Duration::from_millis(50)),
            _ => {
                // The tests are grandchildren: the group goes as a whole.
                let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", child.id())]).status();
                let _ = child.wait();
                return None;
            }
        }
    }
}

fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// A copy without what is built and what is history. Unchanged files keep their times, so that nothing is built anew
/// for nothing.
fn copy_project(to: &Path) -> std::io::Result<()> {
    copy_folder(&root(), to)
}

fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (name, path) = (entry.file_name(), entry.path());
        if name == ".git" || name.to_string_lossy().starts_with("target") {
            continue;
        }
        let copy = to.join(&name);
        if entry.file_type()?.is_dir() {
            copy_folder(&path, &copy)?;
        } else if fs::read(&path)? != fs::read(&copy).unwrap_or_default() || !copy.exists() {
            fs::copy(&path, &copy)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "What is wrong.\n\nclause: A-1\nfile: a.rs\nsuite: -p a --lib\nsuite: loom: x\n\n--- was\n  one\n--- is\n  two\n";

    #[test]
    fn a_bug_is_read_and_applied_where_its_lines_are_once() {
        let bug = Bug::read("a", FILE).unwrap();
        assert_eq!((bug.clause.as_str(), bug.file.as_str()), ("A-1", "a.rs"));
        assert_eq!(bug.suites, ["-p a --lib", "loom: x"]);
        assert_eq!(bug.apply("{\n  one\n}\n").unwrap(), "{\n  two\n}\n");
        assert!(bug.apply("{\n}\n").unwrap_err().contains("0 times"));
        assert!(bug.apply("  one\n  one\n").unwrap_err().contains("2 times"));
        assert!(Bug::read("a", "nothing").unwrap_err().contains("--- was"));
    }

    #[test]
    fn a_suite_is_what_cargo_gets_and_a_filter() {
        let split = |suite| {
            let (cargo, own) = arguments(suite);
            (cargo.join(" "), own.join(" "))
        };
        assert_eq!(split("-p a --lib"), ("test -p a --lib".into(), String::new()));
        assert_eq!(split("-p a --lib lane_9"), ("test -p a --lib".into(), "lane_9".into()));
        assert_eq!(split("-p a --test gate"), ("test -p a --test gate".into(), String::new()));
        assert_eq!(split("loom: loom_gate").1, "loom_gate");
    }

    #[test]
    fn a_suite_that_hangs_is_ended() {
        let child = Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
        assert_eq!(in_time(child, Duration::from_millis(10)), None);
        let child = Command::new("true").process_group(0).spawn().unwrap();
        assert_eq!(in_time(child, PATIENCE), Some(true));
    }

    #[test]
    fn every_bug_of_the_project_can_be_put_in() {
        assert!(check(&Tree::project()).is_ok());
    }
}
