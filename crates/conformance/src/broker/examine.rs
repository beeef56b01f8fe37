//! Examining: what `doctor` shows.

use posthaste_core::BrokerError;

use super::{
    case::cases,
    kit::{Kit, check_presentable, pattern, within},
};

cases! { "examine";
    []: [healthy_server_can_be_used],
    [Faults]: [stopped_server_is_one_plain_line],
}

async fn healthy_server_can_be_used(kit: Kit) -> Result<(), BrokerError> {
    let topics = kit.topics(&[".a", ".b"]).await;
    let broker = kit.broker().await;
    let base = topics[0].strip_suffix(".a").unwrap_or(&topics[0]);
    for patterns in [vec![pattern(&topics[0])], vec![pattern(&format!("{base}*"))], vec![]] {
        let findings = within("examining a healthy server", broker.examine(&patterns)).await?;
        for finding in findings {
            check_presentable(&finding.what);
            let has_fix = finding.fix.as_ref().is_some_and(|fix| !fix.trim().is_empty());
            assert_eq!(has_fix, !finding.ok, "a problem, and nothing else, has a fix: {finding:?}");
        }
    }
    within("closing", broker.close()).await;
    Ok(())
}

async fn stopped_server_is_one_plain_line(kit: Kit) -> Result<(), BrokerError> {
    let topic = kit.topic().await;
    let faults = kit.faults();
    let broker = kit.broker().await;
    faults.stop().await;
    let examined = within("examining a stopped server", broker.examine(&[pattern(&topic)])).await;
    let Err(error) = examined else {
        panic!("a stopped server cannot be used, but was found so: {examined:?}");
    };
    check_presentable(&error.message);
    faults.start().await;
    within("examining it again", broker.examine(&[pattern(&topic)])).await?;
    Ok(())
}
