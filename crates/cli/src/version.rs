//! What this program is: version, commit, features.

use std::sync::LazyLock;

/// The version of the package.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit of the repository that the program was built in, or `unknown` where it was built
/// elsewhere, from a package say; `build.rs` finds it.
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
