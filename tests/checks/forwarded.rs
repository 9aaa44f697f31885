//! The fields by which proxies say whom they ask for.

use hyper::header::{FORWARDED, HeaderMap, HeaderName, HeaderValue};

use super::fields;
use crate::http::{Peer, TrustedProxies};

/// What a client writes into a field itself never counts: its proxies append from where they were asked.
pub fn forwarded(data: &[u8]) {
    let mut proxies = TrustedProxies::default();
    proxies.add("10.0.0.0/8").expect("a network");
    let address = |text: &str| Peer::Address(text.parse().expect("an address"));
    let (proxy, client) = (address("10.0.0.1:7"), address("192.0.2.1:0"));
    let usual = HeaderName::from_static("x-forwarded-for");
    for (name, hops) in [
        (&usual, "192.0.2.1, 10.0.0.2"),
        (&FORWARDED, "for=192.0.2.1;proto=http, for=10.0.0.2"),
    ] {
        let mut own = fields(std::slice::from_ref(name), data);
        own.append(name, HeaderValue::from_static(hops));
        assert_eq!(proxies.client(proxy, &own), Some(client), "{own:?}");
        let line = HeaderValue::from_bytes(&[data, b",", hops.as_bytes()].concat());
        if let Ok(line) = line {
            let own = HeaderMap::from_iter([(name.clone(), line)]);
            assert_eq!(proxies.client(proxy, &own), Some(client), "{own:?}");
        }
    }
    // Both fields, and who is no trusted proxy speaks for itself alone.
    let both = fields(&[FORWARDED, usual], data);
    proxies.client(proxy, &both);
    assert_eq!(proxies.client(client, &both), None);
}
