//! The header of the PROXY protocol, version 1 or 2, by which a proxy says whom a connection is for.
//!
//! Promises that a connection without a valid one is closed, counted, and logged with the reason; that no byte behind
//! the header is taken, which may be of TLS; and that a header is bounded, and has the time of the head of a request.

#[cfg(any(test, fuzzing))]
#[path = "../../tests/checks/proxy_header.rs"]
pub mod fuzz;

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::task::{Context, Poll, ready};

use crc::{CRC_32_ISCSI, Crc};
use ppp::v1::{self, BinaryParseError};
use ppp::v2::{self, ParseError};
use rustix::net::{RecvFlags, recv};
use tokio::io::Interest;

use super::connection_limit::Permit;
use super::raw_socket::RawSocket;
use super::reactor::ConnectionContext;
use crate::http::Peer;

/// The shortest header of both versions, in bytes: `PROXY UNKNOWN` and its line end.
const SHORTEST: usize = 15;

/// The longest header of version 1, in bytes (section 2.1 of the protocol).
const LONGEST_V1: usize = 107;

/// The longest header of version 2 that is taken, in bytes: as long a one as nginx takes.
const LONGEST_V2: usize = 4 << 10;

/// Where a header of version 2 has the length of what follows.
const LENGTH_V2: Range<usize> = 14..16;

/// The checksum that a header of version 2 may have of itself (section 2.2.4).
static CRC32C: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);

/// The type and the length of what else a header of version 2 says, in bytes.
const HEAD_OF_TLV: usize = 3;

/// The error of a header.
#[derive(Debug, thiserror::Error)]
enum BadHeader {
    #[error("the server ends")]
    Draining,
    #[error("{0}")]
    Invalid(&'static str),
    #[error("{0}")]
    Socket(#[from] io::Error),
    #[error("{0}")]
    Text(#[from] BinaryParseError),
    #[error("{0}")]
    Binary(#[from] ParseError),
}

/// Finds out whom the connection is for, and counts it as one of that client; false when it is to be closed.
pub(super) async fn introduce(context: &mut ConnectionContext<'_>, permit: &mut Permit) -> bool {
    let counters = &context.reactor.counters;
    let received = read_header(context).await;
    match received.and_then(|header| source(&header)) {
        Ok(Some(source)) => {
            context.client.peer = Peer::Address(source);
            context.client.by_loopback &= source.ip().to_canonical().is_loopback();
        }
        // The proxy asks for itself, such as whether the server is well.
        Ok(None) => {}
        Err(BadHeader::Draining) => return false,
        Err(error) => {
            counters.bad_proxy_headers.add(1);
            tracing::debug!(peer = %context.client.peer, %error, "no valid PROXY header");
            return false;
        }
    }
    let is_admitted = permit.give_to(context.client.peer);
    if !is_admitted {
        counters.accepting.refused.add(1);
    }
    is_admitted
}

/// Receives a header, and nothing behind it.
async fn read_header(context: &ConnectionContext<'_>) -> Result<Vec<u8>, BadHeader> {
    let mut header = Vec::new();
    let received = poll_fn(|cx| {
        let is_late = context.begin_turn(cx).is_err() || context.exchange.connection().is_late();
        match poll_receive(&context.socket.raw, cx, &mut header) {
            Poll::Pending if is_late => {
                Poll::Ready(Err(BadHeader::Invalid("it did not come in time")))
            }
            Poll::Pending if context.is_finishing() => Poll::Ready(Err(BadHeader::Draining)),
            polled => polled,
        }
    })
    .await;
    context.exchange.received(header.len());
    received.map(|()| header)
}

/// Receives what is missing of `header`: looks at what has arrived, and takes of it what belongs to the header for
/// sure.
fn poll_receive(
    socket: &RawSocket,
    cx: &mut Context<'_>,
    header: &mut Vec<u8>,
) -> Poll<Result<(), BadHeader>> {
    let mut piece = [0; LONGEST_V1];
    while !is_whole(header)? {
        let room = (end(header) - header.len()).min(piece.len());
        let taken = socket.poll_io(cx, Interest::READABLE, |socket| {
            let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
            let (_, seen) = recv(socket, &mut piece[..room], flags)?;
            let own = own(header, &piece[..seen]);
            Ok(recv(socket, &mut piece[..own], RecvFlags::DONTWAIT)?.1)
        });
        match ready!(taken)? {
            0 => {
                return Poll::Ready(Err(BadHeader::Invalid(
                    "the connection ended before its end",
                )));
            }
            taken => header.extend_from_slice(&piece[..taken]),
        }
    }
    Poll::Ready(Ok(()))
}

/// True when `header` is whole, or begins as no header does: to wait for more is of no use.
fn is_whole(header: &[u8]) -> Result<bool, BadHeader> {
    let is_v2 = is_v2(header);
    let (prefix, longest) = if is_v2 {
        (v2::PROTOCOL_PREFIX, LONGEST_V2)
    } else {
        (v1::PROTOCOL_PREFIX.as_bytes(), LONGEST_V1)
    };
    let begun = header.len().min(prefix.len());
    if header[..begun] != prefix[..begun] {
        return Ok(true);
    }
    let is_whole = if is_v2 {
        header.len() >= LENGTH_V2.end && header.len() == end(header)
    } else {
        header.ends_with(b"\n")
    };
    let is_too_long = end(header) > longest || (header.len() == longest && !is_whole);
    if is_too_long {
        return Err(BadHeader::Invalid("it is too long"));
    }
    Ok(is_whole)
}

fn is_v2(header: &[u8]) -> bool {
    header.first() == v2::PROTOCOL_PREFIX.first()
}

/// The end of the header that begins so, or the end of the bytes that are known to belong to it.
fn end(header: &[u8]) -> usize {
    match header.get(LENGTH_V2) {
        _ if header.is_empty() => SHORTEST,
        _ if !is_v2(header) => LONGEST_V1,
        Some(&[high, low]) => LENGTH_V2.end + usize::from(u16::from_be_bytes([high, low])),
        _ => LENGTH_V2.end,
    }
}

/// How many of the bytes `seen`, which come before the end of the header, belong to it: version 1 ends with its line.
fn own(header: &[u8], seen: &[u8]) -> usize {
    let is_v2 = is_v2(if header.is_empty() { seen } else { header });
    let line = memchr::memchr(b'\n', seen).filter(|_| !is_v2);
    line.map_or(seen.len(), |end| end + 1)
}

/// The address that the connection is for; `None` where the header has none.
fn source(header: &[u8]) -> Result<Option<SocketAddr>, BadHeader> {
    if !is_v2(header) {
        let said = v1::Header::try_from(header)?;
        // Behind UNKNOWN the library takes any end.
        if !header.ends_with(b"\r\n") {
            return Err(BinaryParseError::from(v1::ParseError::MissingNewLine).into());
        }
        let has_addresses = !matches!(said.addresses, v1::Addresses::Unknown);
        // The library reads a number as Rust does.
        if has_addresses && header.contains(&b'+') {
            return Err(BadHeader::Invalid("a port has a sign"));
        }
        return Ok(match said.addresses {
            v1::Addresses::Tcp4(of) => Some((of.source_address, of.source_port).into()),
            v1::Addresses::Tcp6(of) => Some((of.source_address, of.source_port).into()),
            v1::Addresses::Unknown => None,
        });
    }
    let header = v2::Header::try_from(header)?;
    check_rest(&header)?;
    Ok(match (header.command, header.addresses) {
        (v2::Command::Proxy, v2::Addresses::IPv4(of)) => {
            Some((of.source_address, of.source_port).into())
        }
        (v2::Command::Proxy, v2::Addresses::IPv6(of)) => {
            Some((of.source_address, of.source_port).into())
        }
        _ => None,
    })
}

/// Refuses what else a header says where it is cut off, or where a checksum is not that of the header with zeros in its
/// place.
fn check_rest(header: &v2::Header<'_>) -> Result<(), BadHeader> {
    let all = header.as_bytes();
    // The library takes all that follows no addresses for addresses.
    let mut end = match header.addresses {
        v2::Addresses::Unspecified => LENGTH_V2.end,
        _ => all.len() - header.tlv_bytes().len(),
    };
    for tlv in v2::TypeLengthValues::from(&all[end..]) {
        let tlv = tlv.map_err(|_| BadHeader::Invalid("what else it says is cut off"))?;
        end += HEAD_OF_TLV + tlv.value.len();
        if tlv.kind != u8::from(v2::Type::CRC32C) {
            continue;
        }
        let mut sum = CRC32C.digest();
        for part in [&all[..end - tlv.value.len()], &[0; 4], &all[end..]] {
            sum.update(part);
        }
        if *tlv.value != sum.finalize().to_be_bytes() {
            return Err(BadHeader::Invalid("its checksum is wrong"));
        }
    }
    Ok(())
}
