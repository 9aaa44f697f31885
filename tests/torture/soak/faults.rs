//! What happens to the server of a soak: it is killed, drained, stopped, cut off and besieged, and loses its disk space
//! and its descriptors, for two or three seconds.

use std::io::Write;

use rustix::process::Resource;

use super::level::COMPUTE_THREADS;
use crate::exhaustion::resources::limit;
use crate::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Kill,
    Drain,
    Stop,
    Cut,
    Slow,
    FullDisk,
    Descriptors,
}

impl Fault {
    /// The faults of so many cycles: the first is a kill, and after a third nothing restarts the server any more.
    pub(super) fn draw(cycles: usize, random: &mut Random) -> Vec<Self> {
        use Fault::{Cut, Descriptors, Drain, FullDisk, Kill, Slow, Stop};
        let all = [Kill, Drain, Stop, Cut, Slow, FullDisk, Descriptors];
        let mut drawn = vec![Kill];
        while drawn.len() < cycles {
            let fault = one_of(random, &all);
            let restarts = matches!(fault, Self::Kill | Self::Drain);
            if !restarts || drawn.len() < cycles / 3 {
                drawn.push(fault);
            }
        }
        drawn
    }
}

/// The server of a soak, which may be another process after a fault, at the same address on the same directory.
pub(super) struct Soak {
    pub(super) server: TestServer,
    pub(super) addr: SocketAddr,
    pub(super) dir: DataDir,
    mount: Option<Mount>,
}

impl Soak {
    pub(super) fn start(random: &mut Random) -> Self {
        let mount = Mount::tmpfs("size=256m", "a full disk in the soak");
        if mount.is_none() {
            left_out("a full disk in the soak", "mounting is not permitted");
        }
        let dir = mount.as_ref().map_or_else(DataDir::in_memory, Mount::dir);
        let addr = quiet_port(random);
        let server = serve(&dir, addr);
        Self {
            server,
            addr,
            dir,
            mount,
        }
    }

    /// Does it; true when the server is another process after it.
    pub(super) fn meet(&mut self, fault: Fault) -> bool {
        let second = Duration::from_secs(1);
        match fault {
            Fault::Kill => {
                self.server.kill();
                self.server = serve(&self.dir, self.addr);
            }
            Fault::Drain => {
                self.server.stop();
                self.server = serve(&self.dir, self.addr);
            }
            Fault::Stop => {
                self.server.signal(Signal::STOP);
                thread::sleep(second);
                self.server.signal(Signal::CONT);
            }
            Fault::Cut => self.crowd().into_iter().for_each(Raw::reset),
            Fault::Slow => {
                let crowd = self.crowd();
                thread::sleep(second * 3);
                drop(crowd);
            }
            Fault::FullDisk => self.fill_disk(second * 2),
            Fault::Descriptors => self.take_descriptors(second * 2),
        }
        matches!(fault, Fault::Kill | Fault::Drain)
    }

    /// A hundred connections in the middle of something.
    fn crowd(&self) -> Vec<Raw> {
        let begin = |n: usize| {
            let mut raw = self.server.connect();
            match n % 3 {
                0 => raw.send("GET /crowd HTTP/1.1\r\nHos"),
                1 => raw.send(put_head("crowd", 10_000) + "half"),
                _ => raw.send(put_head("crowd", 500_000) + "half"),
            }
            raw
        };
        (0..100).map(begin).collect()
    }

    fn fill_disk(&self, time: Duration) {
        if self.mount.is_none() {
            return;
        }
        let filler = self.dir.outside("filler");
        let mut file = File::create(&filler).expect("a file");
        let block = vec![1; 64 << 10];
        while file.write_all(&block).is_ok() {}
        thread::sleep(time);
        fs::remove_file(filler).expect("room again");
    }

    fn take_descriptors(&self, time: Duration) {
        let proc = self.server.proc();
        limit(&proc, Resource::Nofile, Some(proc.descriptors() as u64 + 2));
        thread::sleep(time);
        limit(&proc, Resource::Nofile, None);
    }
}

/// A server that gives freed memory back at once, from a page up: what glibc keeps after the busiest moment of all
/// would look like growth, and hide what really grows.
pub(super) fn serve(dir: &DataDir, addr: SocketAddr) -> TestServer {
    let compute = COMPUTE_THREADS.to_string();
    let pools = ["--threads", "2", "--compute-threads", &compute];
    let args = [&pools[..], &["--cache", "1MiB", "--log-level", "warn"]].concat();
    let launch = Launch::new(&args).env("MALLOC_MMAP_THRESHOLD_", "4096");
    launch.on(dir).listen(&addr.to_string()).start()
}

/// A port that no client is given by chance while the server is away.
fn quiet_port(random: &mut Random) -> SocketAddr {
    let port = |_| 20_000 + u16::try_from(random.usize(..12_000)).unwrap_or(0);
    let addrs = (0..100).map(port);
    let mut addrs = addrs.map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let free = addrs.find(|addr| TcpListener::bind(addr).is_ok());
    free.expect("a free port")
}
