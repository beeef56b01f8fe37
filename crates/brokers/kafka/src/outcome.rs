//! From the client library's errors to outcomes.

use posthaste_core::{Failure, Outcome};
use posthaste_wire::unmapped;
use rdkafka::types::RDKafkaErrorCode as Code;

/// The outcome of a message that was handed to the client library and came back with this error.
///
/// Whatever may have left this machine without a definite answer is unknown.
pub(crate) fn outcome(code: Code) -> Outcome {
    let failure = |class| Failure::new(class, code.to_string());
    match code {
        // This message.
        Code::MessageSizeTooLarge | Code::MessageBatchTooLarge | Code::InvalidMessageSize => {
            Outcome::Rejected(failure("too-large").hopeless())
        }
        // Another one in its batch: found out by `is_of_a_batch`.
        Code::InvalidDifferentRecord
        | Code::InvalidMessage
        | Code::InvalidRecord
        | Code::UnsupportedForMessageFormat => Outcome::Rejected(failure("record").hopeless()),
        Code::InvalidTimestamp => Outcome::Rejected(failure("timestamp")),
        Code::PolicyViolation => Outcome::Rejected(failure("policy")),
        // Its topic.
        Code::InvalidTopic => Outcome::Rejected(failure("topic").hopeless()),
        Code::UnknownTopicOrPartition
        | Code::UnknownTopic
        | Code::UnknownPartition
        | Code::UnknownTopicId => Outcome::Rejected(failure("missing")),
        Code::TopicAuthorizationFailed => Outcome::Rejected(failure("denied")),
        // The cluster, which surely does not have it.
        code if is_auth(code) => Outcome::Unreachable(failure("auth")),
        Code::SSL => Outcome::Unreachable(failure("tls")),
        Code::Resolve => Outcome::Unreachable(failure("connection")),
        Code::QueueFull | Code::ThrottlingQuotaExceeded => {
            Outcome::Unreachable(failure("throttled"))
        }
        Code::NotEnoughReplicas | Code::ISRInsufficient => {
            Outcome::Unreachable(failure("replicas"))
        }
        Code::LeaderNotAvailable
        | Code::NotLeaderForPartition
        | Code::BrokerNotAvailable
        | Code::ReplicaNotAvailable
        | Code::FencedLeaderEpoch
        | Code::UnknownLeaderEpoch => Outcome::Unreachable(failure("leader")),
        Code::KafkaStorageError => Outcome::Unreachable(failure("storage")),
        Code::UnsupportedVersion
        | Code::UnsupportedFeature
        | Code::UnsupportedCompressionType
        | Code::InvalidRequiredAcks => Outcome::Unreachable(failure("unsupported")),
        // It may be there.
        Code::NotEnoughReplicasAfterAppend => Outcome::Unknown(failure("replicas")),
        Code::MessageTimedOut
        | Code::OperationTimedOut
        | Code::TimedOutQueue
        | Code::RequestTimedOut => Outcome::Unknown(failure("timeout")),
        Code::BrokerTransportFailure
        | Code::AllBrokersDown
        | Code::NetworkException
        | Code::BrokerDestroy
        | Code::DestroyBroker
        | Code::PurgeQueue
        | Code::PurgeInflight => Outcome::Unknown(failure("connection")),
        Code::Fatal
        | Code::GaplessGuarantee
        | Code::OutOfOrderSequenceNumber
        | Code::DuplicateSequenceNumber
        | Code::UnknownProducerId
        | Code::InvalidProducerEpoch
        | Code::InvalidProducerIdMapping
        | Code::ProducerFenced
        | Code::Fenced => Outcome::Unknown(failure("producer")),
        other => unmapped("kafka", other),
    }
}

fn is_auth(code: Code) -> bool {
    matches!(
        code,
        Code::ClusterAuthorizationFailed
            | Code::SaslAuthenticationFailed
            | Code::Authentication
            | Code::UnsupportedSASLMechanism
            | Code::IllegalSASLState
            | Code::SecurityDisabled
    )
}

/// Why no connection came about: nothing was sent on it.
pub(crate) fn unusable(code: Code, reason: &str) -> Failure {
    let class = if is_auth(code) {
        "auth"
    } else if code == Code::SSL {
        "tls"
    } else {
        "connection"
    };
    Failure::new(class, reason)
}

/// Whether the error is about a batch, of which one message may be to blame for all.
pub(crate) fn is_of_a_batch(code: Code) -> bool {
    matches!(
        code,
        Code::MessageSizeTooLarge
            | Code::MessageBatchTooLarge
            | Code::InvalidMessageSize
            | Code::InvalidMessage
            | Code::InvalidRecord
            | Code::InvalidDifferentRecord
            | Code::UnsupportedForMessageFormat
            | Code::InvalidTimestamp
            | Code::PolicyViolation
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_error_has_its_outcome() {
        let variant = |code| match outcome(code) {
            Outcome::Acked => ("acked", ""),
            Outcome::Rejected(failure) if failure.is_hopeless => ("hopeless", failure.class),
            Outcome::Rejected(failure) => ("rejected", failure.class),
            Outcome::Unreachable(failure) => ("unreachable", failure.class),
            Outcome::Unknown(failure) => ("unknown", failure.class),
        };
        for (code, expected) in [
            (Code::MessageSizeTooLarge, ("hopeless", "too-large")),
            (Code::MessageBatchTooLarge, ("hopeless", "too-large")),
            (Code::InvalidRecord, ("hopeless", "record")),
            (Code::InvalidMessage, ("hopeless", "record")),
            (Code::InvalidTimestamp, ("rejected", "timestamp")),
            (Code::PolicyViolation, ("rejected", "policy")),
            (Code::InvalidTopic, ("hopeless", "topic")),
            (Code::UnknownTopicOrPartition, ("rejected", "missing")),
            (Code::UnknownTopic, ("rejected", "missing")),
            (Code::TopicAuthorizationFailed, ("rejected", "denied")),
            (Code::ClusterAuthorizationFailed, ("unreachable", "auth")),
            (Code::SaslAuthenticationFailed, ("unreachable", "auth")),
            (Code::Authentication, ("unreachable", "auth")),
            (Code::SSL, ("unreachable", "tls")),
            (Code::Resolve, ("unreachable", "connection")),
            (Code::QueueFull, ("unreachable", "throttled")),
            (Code::NotEnoughReplicas, ("unreachable", "replicas")),
            (Code::NotLeaderForPartition, ("unreachable", "leader")),
            (Code::KafkaStorageError, ("unreachable", "storage")),
            (Code::UnsupportedVersion, ("unreachable", "unsupported")),
            (Code::NotEnoughReplicasAfterAppend, ("unknown", "replicas")),
            (Code::MessageTimedOut, ("unknown", "timeout")),
            (Code::RequestTimedOut, ("unknown", "timeout")),
            (Code::BrokerTransportFailure, ("unknown", "connection")),
            (Code::AllBrokersDown, ("unknown", "connection")),
            (Code::PurgeQueue, ("unknown", "connection")),
            (Code::PurgeInflight, ("unknown", "connection")),
            (Code::Fatal, ("unknown", "producer")),
            (Code::OutOfOrderSequenceNumber, ("unknown", "producer")),
            (Code::InvalidProducerEpoch, ("unknown", "producer")),
            // Nothing a producer should ever see.
            (Code::IllegalGeneration, ("unknown", "unmapped")),
            (Code::Unknown, ("unknown", "unmapped")),
        ] {
            assert_eq!(variant(code), expected, "{code:?}");
        }
    }

    #[test]
    fn an_error_of_a_batch_is_a_refusal() {
        for code in [
            Code::MessageSizeTooLarge,
            Code::InvalidRecord,
            Code::InvalidDifferentRecord,
            Code::InvalidTimestamp,
            Code::PolicyViolation,
        ] {
            assert!(is_of_a_batch(code) && matches!(outcome(code), Outcome::Rejected(_)));
        }
        assert!(!is_of_a_batch(Code::TopicAuthorizationFailed));
    }

    #[test]
    fn what_keeps_a_connection_from_coming_about_is_named() {
        assert_eq!(unusable(Code::Authentication, "no").class, "auth");
        assert_eq!(unusable(Code::SSL, "no").class, "tls");
        assert_eq!(unusable(Code::BrokerTransportFailure, "no").class, "connection");
    }
}
