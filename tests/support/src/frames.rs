//! Frames of HTTP/2 as bytes (RFC 9113, section 4): what tests send, and what passes on the wire.

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const ACK: u8 = 1;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;
pub const PADDED: u8 = 8;

/// One frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).expect("a short frame");
    let head = [
        &len.to_be_bytes()[1..],
        &[kind, flags],
        &stream.to_be_bytes(),
    ];
    [&head.concat(), payload].concat()
}

/// A frame that was received.
#[derive(Debug)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    /// The first frame of these bytes, which it is taken out of, if it is there whole.
    pub fn first_of(bytes: &mut Vec<u8>) -> Option<Self> {
        let [a, b, c, kind, flags, stream @ ..] = *bytes.first_chunk::<9>()?;
        let end = 9 + u32::from_be_bytes([0, a, b, c]) as usize;
        let payload = bytes.get(9..end)?.to_vec();
        bytes.drain(..end);
        Some(Self {
            kind,
            flags,
            stream: u32::from_be_bytes(stream),
            payload,
        })
    }

    /// The number at this place of its payload.
    pub fn number(&self, at: usize) -> u32 {
        let bytes = self.payload[at..at + 4].try_into().expect("four bytes");
        u32::from_be_bytes(bytes)
    }

    pub fn ends_stream(&self) -> bool {
        matches!(self.kind, DATA | HEADERS) && self.flags & END_STREAM != 0
    }
}
