//! Looks at the form of the Rust files: each says what it is, and none grows without end.

use crate::Faults;
use crate::files::{File, Tree};

/// The folders whose files are looked at.
const FOLDERS: [&str; 3] = ["crates/", "xtask/", "examples/"];
const LINES_MAX: usize = 1000;

/// Looks at every Rust file below `FOLDERS`.
pub(crate) fn check(tree: &Tree) -> Result<String, Faults> {
    let ours = |file: &&File| FOLDERS.iter().any(|folder| file.path.starts_with(folder));
    let files: Vec<&File> = tree.rust().filter(ours).collect();
    let faults: Faults = files.iter().flat_map(|file| faults(file)).collect();
    if faults.is_empty() { Ok(format!("{} files are tidy", files.len())) } else { Err(faults) }
}

fn faults(file: &File) -> Faults {
    let mut faults = Vec::new();
    let first = file.text.lines().next().unwrap_or_default();
    if first.strip_prefix("//!").is_none_or(|sentence| sentence.trim().is_empty()) {
        faults.push(format!("{}:1: begin the file with `//!` and a sentence on what it is", file.path));
    }
    let lines = file.text.lines().count();
    if lines > LINES_MAX {
        faults.push(format!("{}:{lines}: split the file, it has over {LINES_MAX} lines", file.path));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines_and_lengths_are_checked_in_our_folders_only() {
        let long = format!("//! Long.\n{}", "\n".repeat(1000));
        let tree = Tree::of(&[
            ("crates/a/src/good.rs", "//! Good.\n"),
            ("crates/a/src/bad.rs", "// Bad.\n"),
            ("examples/empty.rs", ""),
            ("xtask/blank.rs", "//! \n"),
            ("xtask/long.rs", &long),
            ("benches/other.rs", ""),
        ]);
        let begin = "1: begin the file with `//!` and a sentence on what it is";
        let want = [
            format!("crates/a/src/bad.rs:{begin}"),
            format!("examples/empty.rs:{begin}"),
            format!("xtask/blank.rs:{begin}"),
            "xtask/long.rs:1001: split the file, it has over 1000 lines".into(),
        ];
        assert_eq!(check(&tree).unwrap_err(), want);
        assert_eq!(check(&Tree::of(&[("crates/a.rs", "//! A.")])).unwrap(), "1 files are tidy");
    }
}
