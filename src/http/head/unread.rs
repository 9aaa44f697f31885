//! The fields that the framing guard takes out of heads: nothing reads them, or nothing does under this configuration.
//!
//! Pure. A field with a byte that no value may have stays in its head, so that hyper refuses it.

/// The fields that are read under some configurations alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct OptionalFields {
    /// A log has the client's program, and the page that led to a request.
    pub of_client: bool,
    /// An access log is on, which may have the trace of a request.
    pub of_trace: bool,
    /// Trusted proxies name their clients, and the host and the scheme that those asked for.
    pub of_proxies: bool,
    /// Clients sign their requests, and any field of them.
    pub of_signatures: bool,
}

impl OptionalFields {
    /// True for a field, by its name in lower case, that nothing reads where these are read.
    pub fn are_without(self, name: &[u8]) -> bool {
        match name {
            b"user-agent" | b"referer" => !self.of_client && !self.of_signatures,
            b"traceparent" => !self.of_trace && !self.of_signatures,
            b"forwarded" | b"x-forwarded-for" | b"x-forwarded-host" | b"x-forwarded-proto" => {
                !self.of_proxies && !self.of_signatures
            }
            name => is_unread(name) && !self.of_signatures,
        }
    }
}

/// True for a field that clients send and nothing in this server reads; a test finds code that names one.
fn is_unread(name: &[u8]) -> bool {
    let names: &[&[u8]] = match name.len() {
        3 => &[b"dnt", b"via"],
        6 => &[b"cookie", b"pragma"],
        8 => &[b"priority"],
        9 => &[b"sec-ch-ua", b"x-real-ip"],
        10 => &[b"tracestate"],
        14 => &[b"sec-fetch-mode", b"sec-fetch-dest", b"sec-fetch-user"],
        15 => &[b"accept-language"],
        16 => &[b"sec-ch-ua-mobile", b"x-forwarded-port"],
        18 => &[b"sec-ch-ua-platform"],
        25 => &[b"upgrade-insecure-requests"],
        _ => &[],
    };
    names.contains(&name)
}

/// True for a field's value with a byte that none may have (RFC 9110, section 5.5). In blocks of one length and without
/// a branch: compiles to vector code.
pub fn has_control(value: &[u8]) -> bool {
    let is_control = |b: u8| u8::from(b < b' ') & u8::from(b != b'\t') | u8::from(b == 0x7F);
    let (blocks, rest) = value.as_chunks();
    let mut last = [b' '; 16];
    last[..rest.len()].copy_from_slice(rest);
    let mut has = [0; 16];
    blocks.iter().chain([&last]).for_each(|block| {
        for (has, &byte) in has.iter_mut().zip(block) {
            *has |= is_control(byte);
        }
    });
    has != [0; 16]
}
