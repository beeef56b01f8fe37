//! Records panics: planned panics of a schedule are ignored, all others fail it, even if the relay
//! survives them. A schedule runs on one thread, so every panic of that thread belongs to it.

use std::{cell::RefCell, panic, sync::Once};

thread_local! {
    /// What panicked on this thread and was not meant to, since it was last asked.
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// The payload of a planned panic, so that it is not taken for a real one.
pub(crate) struct OnPurpose;

/// From now on panics are noted, in every thread.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !info.payload().is::<OnPurpose>() {
                let what = info.to_string().replace('\n', " ");
                PANICS.with_borrow_mut(|panics| panics.push(what));
                before(info);
            }
        }));
    });
}

/// What panicked on this thread since the last call.
pub(crate) fn take() -> Vec<String> {
    PANICS.take()
}
