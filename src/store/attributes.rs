//! The attributes of a value, in extended attributes of its file: its media type, other fields, its date, and digests
//! once computed.
//!
//! `user.mime_type` is the convention that desktops and other servers share. What the fields mean is known to their
//! reader alone. A digest is kept with the version, the length and the time at which it was kept, and counts while the
//! file has both and has not changed since. The version alone is not enough: modification times repeat (mtime 1 of Nix,
//! whole seconds of tar). Media type and fields are the file's, as its mode is: other bytes written into the same file
//! keep them. The date of the value does not stay then, and is kept with the version, as fields are that are true of
//! its bytes alone. Attributes are a convenience: where the file system has none, values are stored and answered all
//! the same.

use std::borrow::Cow;
use std::os::fd::AsFd;
use std::time::{Duration, SystemTime};

use memchr::memmem;
use rustix::fs::XattrFlags;
use rustix::io::{Errno, retry_on_intr};

use super::clock::now;
use crate::value::{Digest, Error, Version, changed, date, end, with_date};

pub use crate::value::Attributes;

const READ: &str = "read an attribute";

const MEDIA_TYPE: &str = "user.mime_type";
const FIELDS: &str = "user.data-server.fields";
const DATE: &str = "user.data-server.date";
const SHA256: &str = "user.data-server.sha-256";
const SHA512: &str = "user.data-server.sha-512";

/// The longest media type that is read back, in bytes.
const MAX_MEDIA_TYPE: usize = 255;

/// The room for a kept date, and the versions that it is of.
const MAX_DATE: usize = 3 * 8;

/// The room for a kept digest.
const MAX_DIGEST: usize = 128;

/// The most bytes of fields that are read back. With all else they fit in the one block that ext4 has for attributes.
pub const MAX_FIELDS: usize = 2048;

/// The line of the fields behind which they are of one version, which it names. It has the name of no field.
const OF_VERSION: &str = "(version): ";

/// The most digits of a version.
const DIGITS: usize = 20;

/// The longest tick of the kernel's clock. The kernel dates a change by its last tick, or more exactly.
const TICK: Duration = Duration::from_millis(10);

/// How long the kernel may take to set an attribute: a digest that took longer does not count.
const TO_SET: Duration = Duration::from_millis(5);

/// The refusal of a value whose end could not be kept: it would be kept for ever.
const KEEPS_NO_END: Error = Error::NotSupported {
    name: "no-expiry",
    what: "the file system of this server keeps no extended attributes, and so no end of a value: nothing was stored",
};

/// Writes `attributes` to `file`, which has this `version`.
pub fn write(attributes: &Attributes, file: impl AsFd, version: Version) -> Result<(), Error> {
    if let Some(media_type) = &attributes.media_type {
        set(&file, MEDIA_TYPE, media_type.as_bytes())?;
    }
    let Some(fields) = &attributes.fields else {
        return Ok(());
    };
    let mut fields = Cow::Borrowed(&**fields);
    if let Some(date) = date(&fields) {
        set_date(&file, date, &[version])?;
        fields = with_date(&fields, None).into_vec().into();
    }
    // Most values have no fields to search.
    if !fields.is_empty()
        && let Some((common, _, of_version)) = parted(&fields)
    {
        let line = format!("{OF_VERSION}{}\n", version.nanos());
        fields = [common, line.as_bytes(), of_version].concat().into();
    }
    if !fields.is_empty() && !set(&file, FIELDS, &fields)? && attributes.end().is_some() {
        return Err(KEEPS_NO_END);
    }
    Ok(())
}

/// The media type kept with `file`, if there is one and it is valid. A failure to read it is an error: the response
/// must not guess what the client has stored.
pub fn media_type(file: impl AsFd) -> Result<Option<Box<str>>, Error> {
    let mut text = [0; MAX_MEDIA_TYPE];
    let text = get(file, MEDIA_TYPE, &mut text).map_err(Error::errno_while(READ))?;
    Ok(text.and_then(|text| Some(std::str::from_utf8(text).ok()?.into())))
}

/// The fields kept with `file`, which has this `version`, if there are any. A failure to read them is an error, as it
/// is of the media type.
pub fn fields(file: impl AsFd, version: Version) -> Result<Option<Box<[u8]>>, Error> {
    let mut fields = [0; MAX_FIELDS];
    let fields = get(file, FIELDS, &mut fields).map_err(Error::errno_while(READ))?;
    let stale = |of: &[u8]| *of != *version.nanos().to_string().as_bytes();
    let current = |all| match parted(all) {
        Some((common, of, _)) if stale(of) => common,
        _ => all,
    };
    Ok(fields.map(current).map(Into::into))
}

/// Adds `lines` to the fields, as those of the version that the value gets, if there is room for them.
pub fn add_of_version(attributes: &mut Attributes, lines: &[u8]) {
    let fields = attributes.fields.as_deref().unwrap_or_default();
    let text = [fields, OF_VERSION.as_bytes(), b"\n", lines].concat();
    if !lines.is_empty() && text.len() + DIGITS <= MAX_FIELDS {
        attributes.fields = Some(text.into());
    }
}

/// The fields of any version, a version, and those that are of it, if there are some.
fn parted(fields: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let at = memmem::find(fields, OF_VERSION.as_bytes())?;
    let (common, rest) = fields.split_at(at);
    let rest = &rest[OF_VERSION.len()..];
    let end = rest.iter().position(|&b| b == b'\n')?;
    let is_line = common.last().is_none_or(|&b| b == b'\n');
    is_line.then_some((common, &rest[..end], &rest[end + 1..]))
}

/// The date kept with `file`, if it is that of this `version`.
pub fn date_of(file: impl AsFd, version: Version) -> Result<Option<SystemTime>, Errno> {
    let mut kept = [0; MAX_DATE];
    let kept = get(file, DATE, &mut kept)?;
    let Some((date, of)) = kept.and_then(|kept| kept.split_first_chunk()) else {
        return Ok(None);
    };
    let of_version = i64::try_from(version.nanos()).unwrap_or(i64::MAX);
    let is_of_version = of.chunks_exact(8).any(|of| *of == of_version.to_be_bytes());
    let date = Duration::from_nanos(u64::from_be_bytes(*date));
    Ok(is_of_version.then_some(SystemTime::UNIX_EPOCH + date))
}

/// Keeps the date of the value in `file`, which gets the version `next` in place of `version`. A crash may leave it
/// either: so it is the date of both, or, without one, the time of `version`.
pub fn keep_date(file: impl AsFd, version: Version, next: Version) -> Result<(), Error> {
    match date_of(&file, version).map_err(Error::errno_while(READ))? {
        Some(date) => set_date(file, date, &[version, next]),
        None => set_date(file, version.time(), &[next]),
    }
}

/// Keeps `date` with `file`, as that of these `versions`. It is short: with a media type, too, it has room beside the
/// inode on ext4.
fn set_date(file: impl AsFd, date: SystemTime, versions: &[Version]) -> Result<(), Error> {
    let date = date
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let mut kept = Vec::with_capacity(MAX_DATE);
    for nanos in [date.as_nanos().try_into()]
        .into_iter()
        .chain(versions.iter().map(|it| it.nanos().try_into()))
    {
        // Later than all that 64 bits can tell, there is no date.
        let Ok(nanos): Result<i64, _> = nanos else {
            return Ok(());
        };
        kept.extend_from_slice(&nanos.to_be_bytes());
    }
    set(&file, DATE, &kept).map(drop)
}

/// The end of the value in `file`, if its fields have one.
pub fn end_of(file: impl AsFd) -> Result<Option<u64>, Errno> {
    let mut fields = [0; MAX_FIELDS];
    Ok(get(file, FIELDS, &mut fields)?.and_then(end))
}

/// Keeps `digest` of `version` with `file`, unless that is changed meanwhile. Blocks for some milliseconds: when this
/// returns, any later change of the file gets a time at which the digest does not count.
pub fn keep_digest(file: impl AsFd, version: Version, digest: Digest) -> Result<(), Error> {
    let (name, bytes) = match &digest {
        Digest::Sha256(bytes) => (SHA256, &bytes[..]),
        Digest::Sha512(bytes) => (SHA512, &bytes[..]),
    };
    let stat = || rustix::fs::fstat(&file).map_err(Error::errno_while("look at a file"));
    let until = i128::from(now()) + nanos(TO_SET);
    let mut kept = version.nanos().to_be_bytes().to_vec();
    kept.extend_from_slice(&stat()?.st_size.to_be_bytes());
    kept.extend_from_slice(&until.to_be_bytes());
    kept.extend_from_slice(bytes);
    set(&file, name, &kept)?;
    let is_set = changed(&stat()?);
    std::thread::sleep(TO_SET + TICK);
    let is_ours = || {
        let mut now = [0; MAX_DIGEST];
        matches!(get(&file, name, &mut now), Ok(Some(now)) if *now == kept)
    };
    if changed(&stat()?) != is_set && is_ours() {
        rustix::fs::fremovexattr(&file, name).map_err(Error::errno_while("remove an attribute"))?;
    }
    Ok(())
}

/// The digest that `sha512` chooses, SHA-256 otherwise, kept with `file`, if it is of `version`.
pub fn kept_digest(file: impl AsFd, version: Version, sha512: bool) -> Option<Digest> {
    if sha512 {
        kept(file, SHA512, version).map(Digest::Sha512)
    } else {
        kept(file, SHA256, version).map(Digest::Sha256)
    }
}

fn kept<const N: usize>(file: impl AsFd, name: &str, version: Version) -> Option<[u8; N]> {
    let mut kept = [0; MAX_DIGEST];
    let (of, rest) = get(&file, name, &mut kept).ok()??.split_first_chunk()?;
    let (size, rest) = rest.split_first_chunk()?;
    let (until, digest) = rest.split_first_chunk()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    let early = i128::from_be_bytes(*until).checked_sub(changed(&stat))?;
    let is_of_file = i128::from_be_bytes(*of) == version.nanos()
        && i64::from_be_bytes(*size) == stat.st_size
        && (0..=nanos(TO_SET + TICK)).contains(&early);
    is_of_file.then(|| digest.try_into().ok())?
}

fn nanos(span: Duration) -> i128 {
    i128::try_from(span.as_nanos()).unwrap_or(i128::MAX)
}

/// The attribute `name`, if there is one that fits in `room`.
fn get<'a>(file: impl AsFd, name: &str, room: &'a mut [u8]) -> Result<Option<&'a [u8]>, Errno> {
    match retry_on_intr(|| rustix::fs::fgetxattr(&file, name, &mut *room)) {
        Ok(len) => Ok(Some(&room[..len])),
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::RANGE) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Sets the attribute `name`; false where the file system keeps none.
fn set(file: impl AsFd, name: &str, value: &[u8]) -> Result<bool, Error> {
    match retry_on_intr(|| rustix::fs::fsetxattr(&file, name, value, XattrFlags::empty())) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP) => Ok(false),
        Err(errno) => Err(Error::new("set an attribute", errno)),
    }
}

/// Whether the file system of `file` keeps attributes.
pub fn are_kept(file: impl AsFd) -> bool {
    rustix::fs::fsetxattr(file, MEDIA_TYPE, b"text/plain", XattrFlags::empty())
        != Err(Errno::OPNOTSUPP)
}
