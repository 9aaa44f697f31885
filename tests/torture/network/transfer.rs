//! One transfer through a bad network: a request of a number, what happens to it, and what came back.

use crate::prelude::*;
use crate::support::relay::{Fault, Faults};

/// The lengths of values.
pub(super) const LENGTHS: [usize; 4] = [1_000, 60_000, 300_000, 1_000_000];

/// One transfer, and what the network does to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    pub(super) number: usize,
    pub(super) len: usize,
    pub(super) is_upload: bool,
    pub(super) is_chunked: bool,
    pub(super) faults: Faults,
}

impl Transfer {
    /// The transfer of this number: each kind of fault meets each sixteenth, both ways, in both framings.
    pub(super) fn of(number: usize, random: &mut Random) -> Self {
        let len = LENGTHS[number / 2 % LENGTHS.len()];
        let is_upload = number % 3 != 2;
        let at = len * (number % 17) / 16;
        let somewhere = random.usize(..len + 200);
        let there = match number % 7 {
            0 => Fault::Fin(at),
            1 => Fault::Reset(at),
            2 if number.is_multiple_of(4) => Fault::Stall(at),
            3 => Fault::Trickle(len.max(100_000)),
            4 => Fault::Reset(somewhere),
            _ => Fault::None,
        };
        let back = match number % 7 {
            5 => Fault::Reset(number % 100),
            6 => Fault::Fin(number % 100),
            _ => Fault::None,
        };
        let ways = (there, back);
        let (up, down) = if is_upload { ways } else { (back, there) };
        Self {
            number,
            len,
            is_upload,
            is_chunked: number % 5 < 2,
            faults: Faults { up, down },
        }
    }

    /// Whether the network lets all of it through in the end.
    pub(super) fn must_succeed(self) -> bool {
        let harmless = |fault| matches!(fault, Fault::None | Fault::Trickle(_));
        harmless(self.faults.up) && harmless(self.faults.down)
    }

    pub(super) fn key(self) -> String {
        format!("up-{}", self.number)
    }

    pub(super) fn old(self) -> Vec<u8> {
        pattern(self.number as u64 * 2, LENGTHS[self.number % LENGTHS.len()])
    }

    pub(super) fn sent(self) -> Vec<u8> {
        pattern(self.number as u64 * 2 + 1, self.len)
    }

    pub(super) fn request(self) -> Vec<u8> {
        let key = self.key();
        if !self.is_upload {
            return format!("GET /down-{} HTTP/1.1\r\nHost: t\r\n\r\n", self.len).into_bytes();
        }
        if self.is_chunked {
            let lines = "Host: t\r\nTransfer-Encoding: chunked\r\n\r\n";
            let head = format!("PUT /{key} HTTP/1.1\r\n{lines}");
            let body = in_chunks(&self.sent(), self.len.div_ceil(16));
            return [head.as_bytes(), &body].concat();
        }
        [put_head(&key, self.len).as_bytes(), &self.sent()].concat()
    }

    /// Sends the request to this address, on a connection that ends with the answer.
    pub(super) fn exchange(self, addr: SocketAddr) -> Heard {
        Client::new(addr).exchange(&self.request())
    }
}
