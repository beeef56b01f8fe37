//! The signature of Standard Webhooks, version 1: HMAC-SHA256 over id, time and body.

use std::fmt;

use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, Mac};
use posthaste_core::Invalid;
use sha2::Sha256;

const PREFIX: &str = "whsec_";

/// A key that signs: 24 to 64 bytes, written as `whsec_` and their base64. Never shown.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Reads `whsec_...`.
    ///
    /// # Errors
    /// When it is not base64, too short or too long. The value is not repeated in the error.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let wrong = || Invalid {
            field: "secrets",
            value: "***".to_owned(),
            rule: "must be `whsec_` and 24 to 64 bytes in base64; \
                   make one with: echo whsec_$(openssl rand -base64 32)"
                .to_owned(),
        };
        let encoded = text.trim().strip_prefix(PREFIX).ok_or_else(wrong)?;
        let key = STANDARD.decode(encoded).map_err(|_| wrong())?;
        if (24..=64).contains(&key.len()) { Ok(Self(key)) } else { Err(wrong()) }
    }

    fn mac(&self, id: &str, timestamp: u64, body: &[u8]) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        mac
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The header `webhook-signature`: one signature for each secret, so that the receiver may have
/// either while they are rotated.
pub(crate) fn sign(secrets: &[Secret], id: &str, timestamp: u64, body: &[u8]) -> String {
    let signatures = secrets.iter().map(|secret| {
        format!("v1,{}", STANDARD.encode(secret.mac(id, timestamp, body).finalize().into_bytes()))
    });
    signatures.collect::<Vec<_>>().join(" ")
}

/// Whether one of the header's signatures is by one of the secrets. Takes the same time for all.
pub(crate) fn is_signed(
    secrets: &[Secret],
    header: &str,
    id: &str,
    timestamp: u64,
    body: &[u8],
) -> bool {
    let given = header.split(' ').filter_map(|signature| signature.strip_prefix("v1,"));
    let given: Vec<Vec<u8>> = given.filter_map(|text| STANDARD.decode(text).ok()).collect();
    secrets.iter().any(|secret| {
        let mac = secret.mac(id, timestamp, body);
        given.iter().any(|signature| mac.clone().verify_slice(signature).is_ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const NEW: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

    #[test]
    fn the_reference_implementation_accepts_either_key_of_a_rotation() {
        let secrets = [Secret::parse(NEW).unwrap(), Secret::parse(OLD).unwrap()];
        let (id, body) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", br#"{"test": 2432232314}"#);
        let reference = |key: &str| standardwebhooks::Webhook::new(key).unwrap();
        let timestamp = 1_614_265_330;
        let both = sign(&secrets, id, timestamp, body);
        let of = |key| reference(key).sign(id, timestamp as i64, body).unwrap();
        assert_eq!(both, format!("{} {}", of(NEW), of(OLD)));
    }

    #[test]
    fn the_example_of_the_specification_comes_out() {
        let secrets = [Secret::parse(OLD).unwrap()];
        let body = br#"{"test": 2432232314}"#;
        let header = sign(&secrets, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        assert_eq!(header, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_signature_is_of_this_id_time_and_body_by_this_key() {
        let secrets = [Secret::parse(OLD).unwrap()];
        let header = sign(&secrets, "a", 1, b"x");
        assert!(is_signed(&secrets, &format!("v1a,zzz {header}"), "a", 1, b"x"));
        assert!(!is_signed(&secrets, &header, "b", 1, b"x"));
        assert!(!is_signed(&secrets, &header, "a", 2, b"x"));
        assert!(!is_signed(&secrets, &header, "a", 1, b"y"));
        assert!(!is_signed(&[Secret::parse(NEW).unwrap()], &header, "a", 1, b"x"));
        assert!(!is_signed(&secrets, "", "a", 1, b"x"));
    }

    #[test]
    fn a_bad_secret_is_refused_and_not_repeated() {
        for bad in ["", "hunter2", "whsec_", "whsec_aHVudGVyMg==", "whsec_%%%"] {
            let invalid = Secret::parse(bad).unwrap_err();
            assert!(!invalid.to_string().contains("hunter2"), "{invalid}");
            assert!(!invalid.to_string().contains("aHVudGVyMg"), "{invalid}");
        }
        assert_eq!(format!("{:?}", Secret::parse(OLD).unwrap()), "***");
    }
}
