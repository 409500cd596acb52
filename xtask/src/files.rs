//! The text files of a tree, from the disk or, in tests, from memory.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Folders that hold nothing of the project's own.
const SKIPPED: [&str; 4] = ["target", ".git", "node_modules", "__pycache__"];

/// Files with their paths from the root, `/` between folders, in order of path.
#[derive(Default)]
pub(crate) struct Tree {
    files: Vec<File>,
}

/// One file of a tree.
pub(crate) struct File {
    /// Its path from the root.
    pub(crate) path: String,
    /// Its text; bytes that are no UTF-8 are replaced.
    pub(crate) text: String,
}

/// The project's root folder.
pub(crate) fn root() -> PathBuf {
    let manifest = env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&manifest).parent().unwrap_or(Path::new(".")).to_path_buf()
}

impl Tree {
    /// All Rust and Markdown files of the project, and its bugs.
    pub(crate) fn project() -> Self {
        let mut tree = Self::default();
        tree.add_folder(&root(), "");
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        tree
    }

    /// The files given, as path and text.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let file = |&(path, text): &(&str, &str)| File { path: path.into(), text: text.into() };
        Self { files: files.iter().map(file).collect() }
    }

    /// The Rust files.
    pub(crate) fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    /// The bugs that are put in on purpose.
    pub(crate) fn bugs(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".bug"))
    }

    /// The file of that path.
    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    fn add_folder(&mut self, folder: &Path, prefix: &str) {
        for (name, path) in entries(folder).unwrap_or_default() {
            let inner = format!("{prefix}{name}");
            if path.is_dir() {
                if !SKIPPED.contains(&name.as_str()) && !name.starts_with("target-") {
                    self.add_folder(&path, &format!("{inner}/"));
                }
            } else if [".rs", ".md", ".bug"].iter().any(|end| name.ends_with(end))
                && let Ok(bytes) = fs::read(&path)
            {
                self.files.push(File { path: inner, text: String::from_utf8_lossy(&bytes).into() });
            }
        }
    }
}

fn entries(folder: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| (entry.file_name().to_string_lossy().into(), entry.path())))
        .collect()
}
