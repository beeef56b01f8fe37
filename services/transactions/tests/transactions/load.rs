//! The load test, briefly: what it asks for is answered rightly. How fast is the benchmarks' question.

use std::{collections::BTreeSet, time::Duration};

use services_load::{Call, Scenario, Script, client, drive};

use crate::bed::{on_each_database, transfer};

on_each_database!(
    /// D3-36: with the load test's own users every call passes its check, also that for a status.
    r5_01_every_call_of_the_load_test_passes_its_check,
    |api| {
        let seeded = api.create(&transfer("load-user-a", "load-user-b", 1000)).await;
        let script = Script::Transfers { seeded, settles: false };
        let second = Duration::from_secs(1);
        let ramp = Scenario {
            name: "brief",
            starts: Duration::ZERO,
            users: 20,
            up: second,
            hold: second,
            down: second,
        };
        let (client, mut calls, mut created) = (client().unwrap(), BTreeSet::new(), 1);
        // Once, unless this machine is so slow that a call of one in ten is not drawn.
        while calls.len() < script.calls().len() {
            let report = drive(&client, &api.url, script.clone(), &[ramp]).await;
            assert_eq!(report.errors(), 0, "{:#?}", report.thresholds());
            calls.extend(report.samples.iter().map(|sample| sample.call));
            created += report.of(Some(Call::CreateTransaction), None).count();
        }
        assert_eq!(api.counts().await, (created, created));
    }
);
