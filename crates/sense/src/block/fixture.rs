//! Small captured trees for tests.

use crate::Root;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use tempfile::TempDir;

/// A captured tree that is removed when dropped.
pub(crate) struct Tree {
    folder: TempDir,
}

impl Tree {
    /// A tree of these files: path relative to the root, and text.
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let tree = Self { folder: tempfile::tempdir().unwrap() };
        for (path, text) in files {
            tree.write(path, text);
        }
        tree
    }

    /// Writes a file, its folders too.
    pub(crate) fn write(&self, path: &str, text: &str) {
        fs::write(self.ready(path), text).unwrap();
    }

    /// Makes a symbolic link; what it points to need not exist.
    pub(crate) fn link(&self, path: &str, to: &str) {
        symlink(to, self.ready(path)).unwrap();
    }

    /// The root sources read from.
    pub(crate) fn root(&self) -> Root {
        Root::captured(self.folder.path())
    }

    fn ready(&self, path: &str) -> PathBuf {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }
}
