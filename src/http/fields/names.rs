//! The names of fields that `--keep-field` refuses: a client that stores a value must not say these in the server's
//! name.
//!
//! Pure. Fields of other stores are refused because a PUT with one is refused, too.

use hyper::header::HeaderName;

/// Names, and why a value does not bring them. A name that ends with `-` is a prefix.
const REFUSED: [(&str, &str); 4] = [
    (
        "accept-patch accept-ranges age allow cache-control content- data-server- date digest etag expires last-modified link \
         location mtime repr-digest retry-after server server-timing upload- vary www-authenticate x-content-type-options x-delete- \
         x-oc-mtime x-request-id",
        "the server itself answers it, or keeps it in its own way",
    ),
    (
        "accept accept- alt-used authentication-info authorization connection cookie cookie2 dnt early-data expect forwarded from host \
         http2-settings if- keep-alive max-forwards origin pragma priority proxy- range referer sec- te traceparent tracestate trailer \
         transfer-encoding upgrade upgrade- user-agent via want- warning x-forwarded- x-real-ip",
        "it belongs to a request or a connection, and not to a value",
    ),
    (
        "access-control- activate-storage-access alt-svc attribution-reporting- cdn- clear-site-data critical-ch cross-origin- \
         document-isolation-policy document-policy edge-control expect-ct integrity-policy integrity-policy- \
         feature-policy nel no-vary-search origin-agent-cluster origin-trial permissions-policy public-key-pins \
         public-key-pins-report-only referrer-policy refresh require-document-policy report-to reporting-endpoints service-worker-allowed set-cookie \
         set-cookie2 set-login shared-storage-write sourcemap speculation-rules strict-transport-security supports-loading-mode surrogate- \
         timing-allow-origin tk use-as-dictionary x-accel- x-dns-prefetch-control x-frame-options x-lighttpd- \
         x-content-security-policy x-envoy- x-litespeed- x-permitted-cross-domain-policies x-reproxy- x-sendfile x-sendfile- x-sendfile2 \
         x-sourcemap x-ua-compatible x-webkit-csp x-xss-protection",
        "browsers and proxies obey it, so no value may bring it",
    ),
    (
        "x-amz- x-goog- x-ms-",
        "a PUT with such a field is one of another store, and is refused",
    ),
];

/// True where `name` is `known`, or begins with it where `known` ends with `-`.
pub fn is_of(name: &str, known: &str) -> bool {
    name == known || (known.ends_with('-') && name.starts_with(known))
}

/// Why no value may bring the field `name`; `None` where one may.
pub fn refused(name: &HeaderName) -> Option<&'static str> {
    let name = name.as_str();
    let is_in = |names: &str| names.split_whitespace().any(|known| is_of(name, known));
    let (_, why) = REFUSED.iter().find(|(names, _)| is_in(names))?;
    Some(why)
}
