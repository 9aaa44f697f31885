//! What is sealed goes behind what was sealed before: what the protocol says, and what the users of a session say.

use std::io;

use rustls::unbuffered::{EncodeError, EncodeTlsData, EncryptError, WriteTraffic};

use super::buffer::Buffer;

/// Room for an alert, in bytes.
const ALERT: usize = 1 << 10;

/// What is to be sealed.
#[derive(Clone, Copy)]
pub(super) enum Say<'a> {
    Nothing,
    Bytes(&'a [u8]),
    /// That nothing follows.
    End,
}

/// Puts what the library says behind what is `sealed`.
pub(super) fn encode(
    mut data: EncodeTlsData<'_, impl Sized>,
    sealed: &mut Buffer,
) -> io::Result<()> {
    let mut room = ALERT;
    loop {
        match data.encode(sealed.room(room)) {
            Ok(len) => {
                sealed.grow(len);
                return Ok(());
            }
            Err(EncodeError::InsufficientSize(needed)) => room = needed.required_size,
            Err(error) => return Err(io::Error::other(error)),
        }
    }
}

/// Puts what there is to `say`, in records, behind what is `sealed`.
pub(super) fn encrypt(
    mut traffic: WriteTraffic<'_, impl Sized>,
    say: Say<'_>,
    sealed: &mut Buffer,
) -> io::Result<()> {
    let mut room = ALERT;
    loop {
        let said = match say {
            Say::Nothing => return Ok(()),
            Say::Bytes(plain) => traffic.encrypt(plain, sealed.room(room)),
            Say::End => traffic.queue_close_notify(sealed.room(room)),
        };
        match said {
            Ok(len) => {
                sealed.grow(len);
                return Ok(());
            }
            Err(EncryptError::InsufficientSize(needed)) => room = needed.required_size,
            Err(error) => return Err(io::Error::other(error)),
        }
    }
}
