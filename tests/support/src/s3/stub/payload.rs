//! The body of a request: whole or cut off, in chunks or plain, and whether its checksums fit.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::{Bytes, BytesMut};
use crc::{CRC_64_NVME, Crc};
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::Incoming;
use hyper::header::HeaderName;
use md5::Md5;
use sha2::{Digest, Sha256};

use crate::s3::sign::hex;

/// Of another library than the server's.
const CRC64: Crc<u64> = Crc::<u64>::new(&CRC_64_NVME);

/// A body as it came.
#[derive(Clone, Debug)]
pub(super) struct Payload {
    pub(super) bytes: Bytes,
    /// Whether all of it came.
    pub(super) is_whole: bool,
    /// Whether the checksums that came with it fit.
    pub(super) fits: bool,
    /// Whether it came in chunks, with a trailer.
    pub(super) is_chunked: bool,
}

pub(super) async fn read(headers: &HeaderMap, mut body: Incoming) -> Payload {
    let mut bytes = BytesMut::new();
    let mut is_whole = true;
    while let Some(frame) = body.frame().await {
        match frame.map(hyper::body::Frame::into_data) {
            Ok(Ok(data)) => bytes.extend_from_slice(&data),
            Ok(Err(_)) => {}
            Err(_) => is_whole = false,
        }
    }
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let is_chunked = text("x-amz-content-sha256").is_some_and(|how| how.starts_with("STREAMING-"));
    let mut trailer = Some(String::new());
    let mut bytes = bytes.freeze();
    if is_chunked {
        (bytes, trailer) = unchunk(&bytes);
        is_whole &= trailer.is_some();
    }
    let declared = text("x-amz-decoded-content-length").and_then(|len| len.parse::<usize>().ok());
    let trailer = trailer.unwrap_or_default();
    let mut in_trailer = trailer.lines().filter_map(|line| line.split_once(':'));
    let in_head = headers.keys().map(HeaderName::as_str);
    let mut sums = in_head.filter_map(|name| Some((name, text(name)?)));
    let fits = declared.is_none_or(|len| len == bytes.len())
        && sums.all(|(name, value)| is_fitting(name, value, &bytes))
        && in_trailer.all(|(name, value)| is_fitting(name, value.trim(), &bytes));
    Payload {
        bytes,
        is_whole,
        fits,
        is_chunked,
    }
}

fn is_fitting(name: &str, value: &str, bytes: &[u8]) -> bool {
    match name.to_ascii_lowercase().as_str() {
        "content-md5" => value == BASE64_STANDARD.encode(Md5::digest(bytes)),
        "x-amz-checksum-sha256" => value == BASE64_STANDARD.encode(Sha256::digest(bytes)),
        "x-amz-checksum-crc64nvme" => {
            value == BASE64_STANDARD.encode(CRC64.checksum(bytes).to_be_bytes())
        }
        "x-amz-content-sha256" => value.contains('-') || value == hex(&Sha256::digest(bytes)),
        _ => true,
    }
}

/// The data of `aws-chunked` bytes, and the trailer where they are whole.
fn unchunk(mut bytes: &[u8]) -> (Bytes, Option<String>) {
    let mut data = BytesMut::new();
    loop {
        let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else {
            return (data.freeze(), None);
        };
        let size = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let size = size.split(';').next().unwrap_or_default();
        let Ok(size) = usize::from_str_radix(size.trim(), 16) else {
            return (data.freeze(), None);
        };
        bytes = &bytes[end + 2..];
        if size == 0 {
            let is_whole = bytes.ends_with(b"\r\n\r\n") || bytes == b"\r\n";
            let trailer = String::from_utf8_lossy(bytes).into_owned();
            return (data.freeze(), is_whole.then_some(trailer));
        }
        let here = size.min(bytes.len());
        data.extend_from_slice(&bytes[..here]);
        bytes = &bytes[(here + 2).min(bytes.len())..];
    }
}
