//! A small server that breaks one promise, for the crash harness to find out.
//!
//! Its disk is a map in memory that outlives it; a kill stops its threads between two steps of a write.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::mem;
use std::net::Shutdown;
use std::sync::MutexGuard;
use std::thread::JoinHandle;

use super::Subject;
use crate::ledger::Finding;
use crate::random::Random;
use crate::support::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Lie {
    None,
    /// Writes to the value itself, piece by piece, instead of aside.
    InPlace,
    /// Acknowledges a PUT before it is made.
    PutLater,
    /// Acknowledges a DELETE before it is made.
    DeleteLater,
    /// The `ETag` is the length.
    TagOfLength,
    /// Says that it ends in order, and leaves what it has done unanswered.
    HangsUp,
    /// Does not sweep what a kill left.
    Unswept,
}

/// What survives a kill.
#[derive(Default)]
struct Disk {
    values: BTreeMap<String, (u64, Vec<u8>)>,
    staged: Vec<String>,
    writes: u64,
}

type Later = Box<dyn FnOnce(&mut Disk) + Send>;

/// One life of the server, from a start to a kill.
struct Running {
    disk: Arc<Mutex<Disk>>,
    lie: Lie,
    dead: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

pub(super) struct Liar {
    running: Arc<Running>,
    addr: SocketAddr,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Request {
    method: String,
    key: String,
    if_match: Option<String>,
    if_none_match: bool,
    body: Vec<u8>,
}

impl Request {
    fn read(stream: &mut BufReader<TcpStream>) -> io::Result<Self> {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let mut words = line.split(' ');
        let mut word = || {
            let word = words.next().filter(|word| !word.is_empty());
            let word = word.map(|word| word.trim_start_matches('/').to_owned());
            word.ok_or(io::ErrorKind::UnexpectedEof)
        };
        let mut request = Self {
            method: word()?,
            key: word()?,
            ..Self::default()
        };
        let mut length = 0;
        loop {
            let mut line = String::new();
            stream.read_line(&mut line)?;
            match line.trim_end().split_once(": ") {
                Some(("Content-Length", text)) => length = text.parse().expect("a length"),
                Some(("If-Match", tag)) => request.if_match = Some(tag.to_owned()),
                Some(("If-None-Match", _)) => request.if_none_match = true,
                Some(_) => {}
                None => break,
            }
        }
        request.body = vec![0; length];
        stream.read_exact(&mut request.body)?;
        Ok(request)
    }
}

impl Running {
    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().expect("the disk")
    }

    fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    /// Serves a connection; what was put off is made before the next request of it is looked at.
    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let (mut writer, mut later) = (stream, None::<Later>);
        loop {
            let request = Request::read(&mut reader)?;
            if self.is_dead() {
                return Ok(());
            }
            if let Some(change) = later.take() {
                change(&mut self.disk());
            }
            let (answer, put_off) = self.perform(request);
            later = put_off;
            if self.lie == Lie::HangsUp && self.dies_meanwhile() {
                return Ok(());
            }
            writer.write_all(&answer)?;
        }
    }

    /// Takes a moment, so that an end meets requests that were performed and not answered.
    fn dies_meanwhile(&self) -> bool {
        thread::sleep(Duration::from_millis(1));
        self.is_dead()
    }

    fn perform(&self, request: Request) -> (Vec<u8>, Option<Later>) {
        let mut disk = self.disk();
        let current = disk.values.get(&request.key).map(|entry| self.tag(entry));
        let matches = request.if_match.is_none() || request.if_match == current;
        let allowed = matches && !(request.if_none_match && current.is_some());
        if request.key.starts_with("?limit=") {
            let list: Vec<_> = disk.values.keys().map(|key| format!("{key}\n")).collect();
            return (answer(200, "", list.concat().as_bytes()), None);
        }
        match (request.method.as_str(), current) {
            ("GET" | "DELETE", None) => (answer(404, "", &[]), None),
            ("GET", Some(tag)) => (answer(200, &tag, &disk.values[&request.key].1), None),
            _ if !allowed => (answer(412, "", &[]), None),
            ("DELETE", _) => {
                let delete: Later = Box::new(move |disk| drop(disk.values.remove(&request.key)));
                let put_off = self.now_or_later(disk, Lie::DeleteLater, delete);
                (answer(200, "", &[]), put_off)
            }
            _ => {
                disk.writes += 1;
                let entry = (disk.writes, request.body);
                let told = answer(200, &self.tag(&entry), &[]);
                if self.lie == Lie::InPlace {
                    drop(disk);
                    self.write_in_place(&request.key, entry);
                    return (told, None);
                }
                let put: Later = Box::new(move |disk| drop(disk.values.insert(request.key, entry)));
                (told, self.now_or_later(disk, Lie::PutLater, put))
            }
        }
    }

    fn now_or_later(&self, mut disk: MutexGuard<'_, Disk>, lie: Lie, made: Later) -> Option<Later> {
        if self.lie == lie {
            return Some(made);
        }
        made(&mut disk);
        None
    }

    fn write_in_place(&self, key: &str, (number, body): (u64, Vec<u8>)) {
        let empty = (number, Vec::new());
        self.disk().values.insert(key.to_owned(), empty);
        for piece in body.chunks(1024) {
            if self.is_dead() {
                return;
            }
            if let Some((_, value)) = self.disk().values.get_mut(key) {
                value.extend_from_slice(piece);
            }
            thread::yield_now();
        }
    }

    fn tag(&self, (number, body): &(u64, Vec<u8>)) -> String {
        match self.lie {
            Lie::TagOfLength => format!("\"{}\"", body.len()),
            _ => format!("\"write {number}\""),
        }
    }
}

fn answer(status: u16, tag: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status} -\r\nETag: {tag}\r\nContent-Length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

impl Liar {
    pub(super) fn new(lie: Lie) -> Self {
        Self::start(lie, Arc::default())
    }

    fn start(lie: Lie, disk: Arc<Mutex<Disk>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let addr = listener.local_addr().expect("its address");
        let running = Arc::new(Running {
            disk,
            lie,
            dead: AtomicBool::new(false),
            open: Mutex::default(),
        });
        if lie != Lie::Unswept {
            running.disk().staged.clear();
        }
        let acceptor = thread::spawn({
            let running = Arc::clone(&running);
            move || running.accept(&listener)
        });
        Self {
            running,
            addr,
            acceptor: Some(acceptor),
        }
    }
}

impl Running {
    fn accept(&self, listener: &TcpListener) {
        thread::scope(|scope| {
            for stream in listener.incoming().map_while(Result::ok) {
                if self.is_dead() {
                    break;
                }
                let other = stream.try_clone().expect("a second handle");
                self.open.lock().expect("the connections").push(other);
                scope.spawn(|| self.serve(stream));
            }
            for stream in mem::take(&mut *self.open.lock().expect("the connections")) {
                let _ = stream.shutdown(Shutdown::Both);
            }
        });
    }
}

impl Subject for Liar {
    fn addr(&self) -> SocketAddr {
        self.addr
    }

    fn is_orderly(&self) -> bool {
        self.running.lie == Lie::HangsUp
    }

    fn end(&mut self) -> Result<(), Finding> {
        self.running.dead.store(true, Ordering::Release);
        // Wakes the acceptor, which cuts all connections.
        drop(TcpStream::connect(self.addr));
        let acceptor = self.acceptor.take().expect("it runs");
        acceptor.join().expect("the acceptor");
        self.running.disk().staged.push("staging/half".to_owned());
        Ok(())
    }

    fn start(&mut self, _dice: &mut Random) -> Result<(), Finding> {
        *self = Self::start(self.running.lie, Arc::clone(&self.running.disk));
        Ok(())
    }

    fn files(&self) -> Vec<String> {
        let disk = self.running.disk();
        disk.values.keys().chain(&disk.staged).cloned().collect()
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        if self.acceptor.is_some() {
            let _ = self.end();
        }
    }
}
