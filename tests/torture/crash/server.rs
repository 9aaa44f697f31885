//! The real server, as something that is ended under load and started again with other options.

use crate::ledger::{Fault, Finding};
use crate::load::Silence;
use crate::prelude::*;

/// How long a start may take on a busy machine; half of them take less than a second.
const START: Duration = Duration::from_secs(10);

/// The real server, ended by a signal.
pub(super) struct Server {
    dir: DataDir,
    signal: Signal,
    running: TestServer,
    is_disk: bool,
    /// Lives that ended with `--durability disk`.
    pub(super) disk: usize,
    starts: Vec<Duration>,
    pub(super) ends: Vec<Duration>,
}

impl Server {
    pub(super) fn ended_by(signal: Signal) -> Self {
        let dir = DataDir::temporary();
        Self {
            running: Launch::new(&[]).on(&dir).start(),
            dir,
            signal,
            is_disk: false,
            disk: 0,
            starts: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// The options of a start: every way of storing and of handing out connections meets every fault.
    fn launch(&mut self, dice: &mut Random) -> Launch {
        let durability = one_of(dice, &["os", "disk"]);
        self.is_disk = durability == "disk";
        let args = [
            ["--durability", durability],
            ["--threads", one_of(dice, &["1", "2", "8"])],
            ["--cache", one_of(dice, &["0", "64MiB"])],
            ["--dispatch", one_of(dice, &["round-robin", "reuse-port"])],
        ];
        Launch::new(args.as_flattened()).on(&self.dir)
    }

    /// The median and the longest of the times that starts took.
    pub(super) fn start_times(&self) -> (Duration, Duration) {
        let mut starts = self.starts.clone();
        starts.sort_unstable();
        let times = [starts.get(starts.len() / 2), starts.last()];
        times.map(|time| time.copied().unwrap_or_default()).into()
    }

    pub(super) fn addr(&self) -> SocketAddr {
        self.running.addr
    }

    /// Whether it answers whatever it began before it ends.
    fn is_orderly(&self) -> bool {
        self.signal == Signal::TERM
    }

    /// What it means that its end leaves a request without an answer.
    pub(super) fn silence(&self) -> Silence {
        if self.is_orderly() {
            return Silence::NotMade;
        }
        Silence::Unknown
    }

    /// Ends it; clients are at work.
    pub(super) fn end(&mut self) -> Result<(), Finding> {
        let began = Instant::now();
        self.disk += usize::from(self.is_disk);
        self.running.signal(self.signal);
        let (code, expected) = (self.running.exit(), self.is_orderly().then_some(0));
        self.ends.push(began.elapsed());
        let told = format!("{:?}: exit code {code:?}, not {expected:?}", self.signal);
        (code == expected)
            .then_some(())
            .ok_or((Fault::Process, told))
    }

    pub(super) fn start(&mut self, dice: &mut Random) -> Result<(), Finding> {
        if !self.is_orderly() {
            // What few kills leave by themselves: a file with the name that the next one will want.
            fs::write(self.dir.staging().join("0"), "half a value").expect("litter");
        }
        // A start may be killed as well, wherever it has come.
        if dice.u64(..4) == 0 && !self.is_orderly() {
            let time = Duration::from_micros(dice.u64(..20_000));
            self.launch(dice).killed_after(time);
        }
        let (launch, began) = (self.launch(dice), Instant::now());
        self.running = launch.start();
        let took = began.elapsed();
        self.starts.push(took);
        let told = || (Fault::Process, format!("a start took {took:?}"));
        (took < START).then_some(()).ok_or_else(told)
    }

    /// The names of all files that are there, those in staging after a `/`.
    pub(super) fn files(&self) -> Vec<String> {
        let staged = fs::read_dir(self.dir.staging()).expect("the staging directory");
        let staged = staged.map(|entry| entry.expect("an entry").file_name());
        let staged = staged.map(|name| format!("staging/{}", name.display()));
        let values = self.dir.names().into_iter();
        let values = values.map(|name| String::from_utf8_lossy(&name).into_owned());
        values.chain(staged).collect()
    }
}
