//! Version, commit and features of this program.

use std::sync::LazyLock;

/// The version of the package.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit of the repository in which the program was built, or `unknown` if it was built
/// elsewhere, for example from a package; `build.rs` finds it.
pub(crate) const COMMIT: &str = env!("POSTHASTE_COMMIT");

/// What `-V` prints behind the name.
pub(crate) const SHORT: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (", env!("POSTHASTE_COMMIT_SHORT"), ")");

/// What `--version` prints behind the name.
pub(crate) static LONG: LazyLock<String> = LazyLock::new(|| {
    let features = match features().as_slice() {
        [] => "none".to_owned(),
        features => features.join(", "),
    };
    format!("{VERSION}\ncommit: {COMMIT}\nfeatures: {features}")
});

/// Features that the program was built with.
pub(crate) fn features() -> Vec<&'static str> {
    let all = [("kafka", cfg!(feature = "kafka"))];
    all.into_iter().filter(|(_, is_on)| *is_on).map(|(name, _)| name).collect()
}
