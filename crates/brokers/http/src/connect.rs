//! The HTTP client: no redirects, no proxy, only addresses that are allowed, certificates verified.

use std::{error::Error, net::SocketAddr, sync::Arc, time::Duration};

use posthaste_core::Invalid;
use posthaste_wire::{Roots, redacted};
use reqwest::{
    Client,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect::Policy,
};
use url::Url;

use crate::{Config, address};

/// Longest wait for a connection, below every sensible deadline of a call.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest time a connection is kept for the next request: below the 5 s after which common servers
/// close theirs, so that a request is seldom sent into one that is just being closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// A name that stands for an address we may not connect to.
#[derive(Debug)]
pub(crate) struct Forbidden {
    name: String,
}

impl std::fmt::Display for Forbidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} is an address of a private network or of this machine; \
             say `allow_private = true` if you mean it",
            self.name
        )
    }
}

impl Error for Forbidden {}

/// The look-up of the system.
struct System;

impl Resolve for System {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found: Vec<_> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// Refuses names by what another look-up says of them. The client connects to what this returns and
/// asks nobody else, so a name cannot stand for something else in between.
struct Guarded<R> {
    look_up: R,
    allow_private: bool,
}

impl<R: Resolve> Resolve for Guarded<R> {
    fn resolve(&self, name: Name) -> Resolving {
        let allow_private = self.allow_private;
        let text = name.as_str().to_owned();
        let found = self.look_up.resolve(name);
        Box::pin(async move {
            let found: Vec<SocketAddr> = found.await?.collect();
            // All of them: a name that stands for a public and a private address is an attack.
            if !allow_private && found.iter().any(|found| !address::is_public(found.ip())) {
                return Err(Forbidden { name: text }.into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// The client for a configuration.
pub(crate) fn client(config: &Config, url: &Url) -> Result<Client, Invalid> {
    client_with(config, url, System)
}

fn client_with(
    config: &Config,
    url: &Url,
    look_up: impl Resolve + 'static,
) -> Result<Client, Invalid> {
    let load = if url.scheme() == "https" { Roots::require } else { Roots::load };
    let mut tls = load(config.ca_file.as_deref())?.client_config();
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    let invalid = |rule: String| Invalid { field: "url", value: redacted(&config.url), rule };
    Client::builder()
        .tls_backend_preconfigured(tls)
        // A request that timed out takes its connection with it. One of HTTP/2 would live on, half
        // open perhaps, and the next requests would be given to it.
        .http1_only()
        .redirect(Policy::none())
        .no_proxy()
        .dns_resolver(Arc::new(Guarded { look_up, allow_private: config.allow_private }))
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_max_idle_per_host(config.connections as usize)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .user_agent(concat!("posthaste/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| invalid(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::{
        collections::VecDeque,
        net::{Ipv4Addr, TcpListener},
        sync::Mutex,
    };

    use posthaste_core::Outcome;

    use super::*;
    use crate::{Secret, outcome};

    /// A name server that answers something else each time.
    struct Fickle(Arc<Mutex<VecDeque<Vec<&'static str>>>>);

    impl Resolve for Fickle {
        fn resolve(&self, _: Name) -> Resolving {
            let answer = self.0.lock().unwrap().pop_front().expect("one question too many");
            let found: Vec<SocketAddr> =
                answer.iter().map(|text| SocketAddr::new(text.parse().unwrap(), 0)).collect();
            Box::pin(async move { Ok(Box::new(found.into_iter()) as Addrs) })
        }
    }

    fn config(url: String, allow_private: bool) -> Config {
        let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        Config { allow_private, ..Config::new(url, vec![secret]) }
    }

    /// What a request comes to whose name stands for these addresses, one look-up after the other;
    /// and how many look-ups are left.
    async fn asked(port: u16, allow_private: bool, answers: &[&[&'static str]]) -> (String, usize) {
        let answers = answers.iter().map(|answer| answer.to_vec()).collect();
        let answers = Arc::new(Mutex::new(answers));
        let config = config(format!("http://hooks.example:{port}/"), allow_private);
        let url = config.url.parse().unwrap();
        let client = client_with(&config, &url, Fickle(Arc::clone(&answers))).unwrap();
        let request = client.post(&config.url).timeout(Duration::from_secs(5));
        let error = request.send().await.expect_err("nobody answers");
        let class = match outcome::of_error(&error) {
            Outcome::Unreachable(failure) | Outcome::Unknown(failure) => failure.class.to_string(),
            other => panic!("{other:?}"),
        };
        (class, answers.lock().unwrap().len())
    }

    #[tokio::test]
    async fn a_name_is_refused_for_any_address_it_stands_for() {
        // Whoever connects would be seen here.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let answers: [&[&str]; 6] = [
            &["127.0.0.1"],
            &["192.0.2.1", "127.0.0.1"],
            &["1.1.1.1", "127.0.0.1"],
            &["127.0.0.1", "1.1.1.1"],
            &["::ffff:127.0.0.1"],
            &["2606:4700::1", "fe80::1"],
        ];
        for answer in answers {
            assert_eq!(asked(port, false, &[answer]).await, ("forbidden".to_owned(), 0));
        }
        assert!(listener.accept().is_err(), "no connection was made");
    }

    #[tokio::test]
    async fn a_name_is_looked_up_once_and_the_connection_is_to_what_was_checked() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = std::thread::spawn(move || drop(listener.accept().unwrap()));
        // A second question would be answered with an address where nobody is.
        let (class, left) = asked(port, true, &[&["127.0.0.1"], &["127.0.0.9"]]).await;
        assert_eq!((class.as_str(), left), ("connection", 1));
        seen.join().unwrap();
    }
}
