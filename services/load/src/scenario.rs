//! How many virtual users work when.

use std::{ops::Range, time::Duration};

/// How long it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As the requirements say: 7 minutes and 22 seconds.
    Full,
    /// Every duration a tenth, and no pauses between scenarios: 38 seconds.
    Quick,
}

/// A number of virtual users that rises, holds and falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// For people.
    pub name: &'static str,
    /// When it begins, from the start of the run.
    pub starts: Duration,
    /// Most virtual users.
    pub users: u32,
    /// From none to all.
    pub up: Duration,
    /// With all.
    pub hold: Duration,
    /// From all to none.
    pub down: Duration,
}

impl Scenario {
    /// When it ends, from the start of the run.
    #[must_use]
    pub fn ends(&self) -> Duration {
        self.starts + self.up + self.hold + self.down
    }

    /// When a user works, by its number from 0: the ramps are straight, and who came last goes first.
    #[must_use]
    pub fn shift(&self, number: u32) -> Range<Duration> {
        let share = f64::from(number) / f64::from(self.users);
        self.starts + self.up.mul_f64(share)..self.ends() - self.down.mul_f64(share)
    }
}

/// Smoke, steady and spike.
#[must_use]
pub fn scenarios(form: Form) -> [Scenario; 3] {
    let seconds = Duration::from_secs;
    let scenario = |name, starts, users, up, hold, down| Scenario {
        name,
        starts: seconds(starts),
        users,
        up: seconds(up),
        hold: seconds(hold),
        down: seconds(down),
    };
    let full = [
        scenario("smoke", 0, 1, 0, 30, 0),
        scenario("steady", 31, 50, 30, 240, 30),
        scenario("spike", 392, 200, 10, 30, 10),
    ];
    if form == Form::Full {
        return full;
    }
    let mut starts = Duration::ZERO;
    full.map(|full| {
        let (up, hold, down) = (full.up / 10, full.hold / 10, full.down / 10);
        let quick = Scenario { starts, up, hold, down, ..full };
        starts = quick.ends();
        quick
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Users who work at a moment.
    fn at(scenario: &Scenario, seconds: f64) -> usize {
        let moment = Duration::from_secs_f64(seconds);
        (0..scenario.users).filter(|number| scenario.shift(*number).contains(&moment)).count()
    }

    #[test]
    fn r5_01_the_shapes_are_those_of_the_document() {
        let [smoke, steady, spike] = scenarios(Form::Full);
        assert_eq!((at(&smoke, 0.0), at(&smoke, 29.9), at(&smoke, 30.0)), (1, 1, 0));
        assert_eq!(at(&steady, 30.9), 0);
        assert_eq!((at(&steady, 46.0), at(&steady, 61.0), at(&steady, 300.9)), (26, 50, 50));
        assert_eq!((at(&steady, 316.0), at(&steady, 331.0)), (25, 0));
        assert_eq!((at(&spike, 391.9), at(&spike, 402.0), at(&spike, 431.9)), (0, 200, 200));
        assert_eq!((at(&spike, 442.0), spike.ends().as_secs()), (0, 442));
    }

    #[test]
    fn r5_01_the_quick_form_is_a_tenth_without_pauses() {
        let [smoke, steady, spike] = scenarios(Form::Quick);
        assert_eq!((smoke.starts.as_secs(), smoke.ends().as_secs()), (0, 3));
        assert_eq!((steady.starts.as_secs(), steady.ends().as_secs()), (3, 33));
        assert_eq!((spike.starts.as_secs(), spike.ends().as_secs()), (33, 38));
        assert_eq!((steady.users, spike.users), (50, 200));
        assert_eq!((at(&steady, 6.0), at(&spike, 34.0)), (50, 200));
    }
}
