//! Tells the program which commit it was built from: `POSTHASTE_COMMIT`, and its beginning as
//! `POSTHASTE_COMMIT_SHORT`. Both are `unknown` where the sources are not the repository's own (a
//! package, a copy inside another repository) or git is not there. Runs again only when the commit
//! changes.

use std::{env, path::Path, process::Command};

/// Characters of a commit that are enough to find it.
const SHORT: usize = 12;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let commit = commit().unwrap_or_else(|| "unknown".to_owned());
    let short = commit.get(..SHORT).unwrap_or(&commit);
    println!("cargo::rustc-env=POSTHASTE_COMMIT={commit}");
    println!("cargo::rustc-env=POSTHASTE_COMMIT_SHORT={short}");
}

fn commit() -> Option<String> {
    let folder = env::var("CARGO_MANIFEST_DIR").ok()?;
    let root = Path::new(&folder).parent()?.parent()?.canonicalize().ok()?;
    let top = git(&root, &["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != root {
        return None;
    }
    // What changes with the commit: the name of the branch, the branch, which may be packed away
    // until the next commit, and the record of both.
    let branch = git(&root, &["symbolic-ref", "--quiet", "HEAD"]);
    for name in ["HEAD", "packed-refs", "logs/HEAD"].into_iter().chain(branch.as_deref()) {
        let file = root.join(git(&root, &["rev-parse", "--git-path", name])?);
        // Cargo takes a file that is not there for one that has changed.
        if file.exists() {
            println!("cargo::rerun-if-changed={}", file.display());
        }
    }
    git(&root, &["rev-parse", "HEAD"])
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").current_dir(root).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim();
    (output.status.success() && !text.is_empty()).then(|| text.to_owned())
}
