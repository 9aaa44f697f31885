//! The output of a session, encrypted: messages of the protocol and data of the session's users, one behind the other.

use std::io;

use rustls::unbuffered::{EncodeError, EncodeTlsData, EncryptError, WriteTraffic};

use super::buffer::Buffer;

/// Room for an alert, in bytes.
const ALERT: usize = 1 << 10;

/// The data to encrypt.
#[derive(Clone, Copy)]
pub(super) enum Say<'a> {
    Nothing,
    Bytes(&'a [u8]),
    /// That nothing follows.
    End,
}

/// Puts what the library says behind what is `encrypted`.
pub(super) fn encode(
    mut data: EncodeTlsData<'_, impl Sized>,
    encrypted: &mut Buffer,
) -> io::Result<()> {
    let mut room = ALERT;
    loop {
        match data.encode(encrypted.room(room)) {
            Ok(len) => {
                encrypted.grow(len);
                return Ok(());
            }
            Err(EncodeError::InsufficientSize(needed)) => room = needed.required_size,
            Err(error) => return Err(io::Error::other(error)),
        }
    }
}

/// Puts what there is to `say`, in records, behind what is `encrypted`.
pub(super) fn encrypt(
    mut traffic: WriteTraffic<'_, impl Sized>,
    say: Say<'_>,
    encrypted: &mut Buffer,
) -> io::Result<()> {
    let mut room = ALERT;
    loop {
        let said = match say {
            Say::Nothing => return Ok(()),
            Say::Bytes(plain) => traffic.encrypt(plain, encrypted.room(room)),
            Say::End => traffic.queue_close_notify(encrypted.room(room)),
        };
        match said {
            Ok(len) => {
                encrypted.grow(len);
                return Ok(());
            }
            Err(EncryptError::InsufficientSize(needed)) => room = needed.required_size,
            Err(error) => return Err(io::Error::other(error)),
        }
    }
}
