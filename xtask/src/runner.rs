//! Runs programs in the project's root and lets their output through.

use std::env;
use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

use crate::Faults;
use crate::files::root;

/// One call of cargo.
pub(crate) struct Run {
    arguments: Vec<String>,
    variables: Vec<(&'static str, &'static str)>,
}

impl Run {
    /// Cargo with these arguments.
    pub(crate) fn cargo<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Self {
        Self { arguments: arguments.into_iter().map(Into::into).collect(), variables: Vec::new() }
    }

    /// With an environment variable.
    pub(crate) fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.variables.push((name, value));
        self
    }

    /// With a target folder of its own, so that its flags do not throw away what others have built.
    pub(crate) fn within(mut self, folder: &str) -> Self {
        let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
        let target = target.join(folder).to_string_lossy().into();
        let end = self.arguments.iter().position(|argument| argument == "--");
        let end = end.unwrap_or(self.arguments.len());
        self.arguments.splice(end..end, ["--target-dir".into(), target]);
        self
    }

    /// Runs it with its output going where ours goes.
    pub(crate) fn run(&self) -> Result<(), Faults> {
        eprintln!("$ {self}");
        let status = self.command().status().map_err(|error| self.fault(&error))?;
        self.judge(status)
    }

    /// Runs tests, lets their output through and returns how many have passed; none at all is a fault.
    pub(crate) fn run_tests(&self) -> Result<u64, Faults> {
        eprintln!("$ {self}");
        let mut child = self.command().stdout(Stdio::piped()).spawn().map_err(|error| self.fault(&error))?;
        let mut passed = 0;
        if let Some(stdout) = child.stdout.take() {
            for line in BufReader::new(stdout).split(b'\n') {
                let line = line.map_err(|error| self.fault(&error))?;
                let line = String::from_utf8_lossy(&line);
                // Nobody may be reading any more; the tests go on.
                let _ = writeln!(std::io::stdout(), "{line}");
                passed += tests_passed(&line);
            }
        }
        let status = child.wait().map_err(|error| self.fault(&error))?;
        self.judge(status)?;
        if passed == 0 { Err(vec![format!("`{self}` ran no test")]) } else { Ok(passed) }
    }

    /// Runs it and returns what it prints.
    pub(crate) fn output(&self) -> Result<String, Faults> {
        let output = self.command().stderr(Stdio::inherit()).output().map_err(|error| self.fault(&error))?;
        self.judge(output.status)?;
        Ok(String::from_utf8_lossy(&output.stdout).into())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(&self.arguments).envs(self.variables.iter().copied()).current_dir(root());
        command
    }

    fn judge(&self, status: ExitStatus) -> Result<(), Faults> {
        if status.success() { Ok(()) } else { Err(vec![format!("`{self}` failed: {status}")]) }
    }

    fn fault(&self, error: &std::io::Error) -> Faults {
        vec![format!("`{self}` cannot run: {error}")]
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.variables {
            write!(f, "{name}='{value}' ")?;
        }
        write!(f, "cargo {}", self.arguments.join(" "))
    }
}

/// The number in a summary line such as `test result: ok. 3 passed; 0 failed; …`.
fn tests_passed(line: &str) -> u64 {
    let result = line.strip_prefix("test result: ").and_then(|result| result.split_once(" passed;"));
    let count = result.and_then(|(before, _)| before.rsplit(' ').next());
    count.and_then(|count| count.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_lines_are_counted() {
        assert_eq!(tests_passed("test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured"), 12);
        assert_eq!(tests_passed("test result: FAILED. 3 passed; 1 failed"), 3);
        assert_eq!(tests_passed("running 5 tests"), 0);
    }

    #[test]
    fn a_target_folder_goes_before_the_arguments_of_the_program() {
        let run = Run::cargo(["test", "--", "loom_"]).within("loom").with("RUSTFLAGS", "--cfg x");
        let text = run.to_string();
        assert!(text.starts_with("RUSTFLAGS='--cfg x' cargo test --target-dir "), "{text}");
        assert!(text.ends_with("loom -- loom_"), "{text}");
    }
}
