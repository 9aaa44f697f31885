//! Listening on a unix socket: its file comes and goes with the server.
//!
//! A file that a dead server left is replaced. One that a server listens on is refused, and so is what is no socket. The
//! mode of the file is what the umask leaves of 0777: by the usual one its user alone can connect.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket, Type};

/// The file of a socket that this process listens on, which is removed when this is dropped.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    /// Device and inode: another server may have taken the name since.
    identity: (u64, u64),
}

impl SocketFile {
    fn new(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            identity: identity(path)?,
        })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|now| now == self.identity) {
            // What stays behind is replaced at the next start.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The path of a unix socket's address; an abstract name begins with `@`, and what has no name is `@` alone.
pub(super) fn path(address: &SockAddr) -> PathBuf {
    let name = || {
        let name = address.as_abstract_namespace().unwrap_or_default();
        format!("@{}", String::from_utf8_lossy(name)).into()
    };
    address.as_pathname().map_or_else(name, Path::to_owned)
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Listens at `path`.
pub(super) fn listen(path: &Path, backlog: i32) -> io::Result<(Socket, SocketFile)> {
    let address = SockAddr::unix(path)?;
    let socket = stream()?;
    match socket.bind(&address) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            remove_stale(path, &address)?;
            socket.bind(&address)?;
        }
        bound => bound?,
    }
    let file = SocketFile::new(path)?;
    socket.listen(backlog)?;
    Ok((socket, file))
}

fn stream() -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Removes the file at `path` if it is a socket on which no process listens.
fn remove_stale(path: &Path, address: &SockAddr) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        let why = "there is a file, and it is no socket";
        return Err(io::Error::new(ErrorKind::AlreadyExists, why));
    }
    match stream()?.connect(address) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        // Also one whose queue is full.
        _ => {
            let why = "another process listens there";
            Err(io::Error::new(ErrorKind::AddrInUse, why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_another_server_made_meanwhile_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let (first, first_file) = listen(&path, 1).unwrap();
        fs::remove_file(&path).unwrap();
        let (_second, second_file) = listen(&path, 1).unwrap();
        drop((first_file, first));
        assert!(path.exists());
        drop(second_file);
        assert!(!path.exists());
    }
}
