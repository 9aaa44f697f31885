//! Archives: a folder as a tar or a zip that other programs read, and a tar of theirs as values; who may have which
//! members of either.

mod broken;
mod pack;
mod rights;
mod unpack;

use std::io::Cursor;

use tar::{Archive, EntryType, Header};

use crate::support::prelude::*;

/// A member of a tar.
fn header(name: &[u8], kind: EntryType, len: u64) -> Header {
    let mut header = Header::new_gnu();
    header.as_mut_bytes()[..name.len()].copy_from_slice(name);
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_size(len);
    header.set_cksum();
    header
}

/// A tar of these members, without its end mark.
fn members<'a>(members: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Vec<u8> {
    let mut tar = Vec::new();
    for (name, data) in members {
        let header = header(name.as_bytes(), EntryType::Regular, data.len() as u64);
        tar.extend_from_slice(header.as_bytes());
        tar.extend_from_slice(data);
        tar.resize(tar.len().next_multiple_of(512), 0);
    }
    tar
}

/// A whole tar of these members.
pub(crate) fn tar<'a>(list: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Vec<u8> {
    ended(members(list))
}

fn ended(mut members: Vec<u8>) -> Vec<u8> {
    members.resize(members.len() + 1024, 0);
    members
}

/// The names and the data of the members of a tar, in their order.
#[track_caller]
fn read(tar: &[u8]) -> Vec<(String, Vec<u8>)> {
    assert!(tar.ends_with(&[0; 1024]), "no end mark");
    let mut archive = Archive::new(Cursor::new(tar));
    let entries = archive.entries().expect("members");
    let entry = entries.map(|entry| {
        let mut entry = entry.expect("a member");
        let name = String::from_utf8(entry.path_bytes().into_owned()).expect("UTF-8");
        let mut data = Vec::new();
        entry.read_to_end(&mut data).expect("its data");
        (name, data)
    });
    entry.collect()
}

/// The names in the directory of a zip, in their order.
#[track_caller]
fn names_in(zip: &[u8]) -> Vec<String> {
    let number = |at: usize, len: usize| {
        let bytes = zip[at..at + len].iter().rev();
        bytes.fold(0, |n, &byte| n << 8 | usize::from(byte))
    };
    let end = zip.len() - 22;
    assert!(zip[end..].starts_with(b"PK\x05\x06"), "no end");
    let mut at = number(end + 16, 4);
    let names = (0..number(end + 10, 2)).map(|_| {
        assert!(zip[at..].starts_with(b"PK\x01\x02"), "no record");
        let (name, len) = (at + 46, number(at + 28, 2));
        at = name + len + number(at + 30, 2) + number(at + 32, 2);
        String::from_utf8(zip[name..name + len].to_vec()).expect("UTF-8")
    });
    names.collect()
}

/// A program of this machine; `None` where it is missing, which is said.
fn program(name: &str) -> Option<Command> {
    let is_here = is_on_path(name);
    let why = format!("{name} does not run here");
    available(
        "archives of other programs",
        is_here.then_some(()).ok_or(why),
    )?;
    Some(Command::new(name))
}

/// What a program that was to succeed has printed.
#[track_caller]
fn printed(command: &mut Command) -> String {
    let ended = command.output().expect("it runs");
    let text = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{command:?}: {text}");
    String::from_utf8(ended.stdout).expect("UTF-8")
}
