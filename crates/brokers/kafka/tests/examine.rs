//! What `doctor` finds on a real server.

mod common;

use common::{broker, create, topic, url};
use posthaste_core::{Broker, Finding};

fn problems(findings: &[Finding]) -> Vec<&Finding> {
    findings.iter().filter(|finding| !finding.ok).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_with_one_copy_is_a_problem() {
    let url = url().await;
    let topic = create(&url, "weak", &[("unclean.leader.election.enable", "true")]).await;
    let findings = broker(&url).examine(&[topic.parse().unwrap()]).await.unwrap();
    assert!(findings[0].ok && findings[0].what.contains("answers"), "{findings:?}");
    let problems = problems(&findings);
    let expected = ["1 copy of each message", "min.insync.replicas = 1", "has not everything"];
    assert_eq!(problems.len(), expected.len(), "{problems:?}");
    for (problem, expected) in problems.iter().zip(expected) {
        assert!(problem.what.contains(&topic) && problem.what.contains(expected), "{problem:?}");
        assert!(problem.fix.as_ref().is_some_and(|fix| fix.contains("kafka-")), "{problem:?}");
    }
    let limit = findings.last().unwrap();
    assert!(limit.ok && limit.what.contains("up to 1048588 bytes"), "{limit:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_topic_is_a_problem() {
    let url = url().await;
    let missing = topic("missing");
    let patterns = [missing.parse().unwrap(), format!("{missing}.*").parse().unwrap()];
    let findings = broker(&url).examine(&patterns).await.unwrap();
    let problems = problems(&findings);
    assert_eq!(problems.len(), 2, "{findings:?}");
    assert!(problems[0].what.contains("is missing"));
    assert!(problems[0].fix.as_ref().unwrap().contains(&format!("--topic {missing}")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_is_an_error() {
    let error = broker("kafka://localhost:1").examine(&[]).await.unwrap_err();
    assert!(error.message.contains("localhost:1"), "{error}");
    assert!(error.message.contains("check host and port"), "{error}");
}
