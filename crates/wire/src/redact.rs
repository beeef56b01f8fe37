//! What of a list of servers can be shown when it is refused.

/// Servers as `host:port`, separated by commas, with `***` for what is not one: it may be a part of a
/// password that was written without its server, or with a comma in it.
#[must_use]
pub fn shown_servers(list: &str) -> String {
    let shown = list.split(',').map(|server| if is_server(server.trim()) { server } else { "***" });
    shown.collect::<Vec<_>>().join(",")
}

fn is_server(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (text, "0"),
    };
    let is_address = host.starts_with('[') && host.ends_with(']');
    let is_in_host = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let is_in_address = |c: char| c.is_ascii_hexdigit() || "[].:%".contains(c);
    let is_host =
        if is_address { host.chars().all(is_in_address) } else { host.chars().all(is_in_host) };
    is_host && port.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_servers_are_shown() {
        for (list, shown) in [
            ("a", "a"),
            ("a:9092, b-1.example:4222", "a:9092, b-1.example:4222"),
            ("[::1]:9092,[fe80::1]", "[::1]:9092,[fe80::1]"),
            ("", ""),
            ("me:hunter2", "***"),
            ("a:70000,b", "***,b"),
            ("a:1:2", "***"),
            ("hunter%32", "***"),
            ("a/hunter2", "***"),
            ("a?hunter2,b", "***,b"),
        ] {
            assert_eq!(shown_servers(list), shown, "{list}");
        }
    }
}
