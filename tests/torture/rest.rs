//! What a server at rest holds on to, and whether it lets go of what it had besides. `faults::planted` shows that a
//! leak is found.

use crate::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rest {
    descriptors: usize,
    staged: usize,
}

impl Rest {
    pub(crate) fn of(server: &TestServer) -> Self {
        let staging = fs::read_dir(server.dir.staging()).expect("the staging directory");
        Self {
            descriptors: server.proc().descriptors(),
            staged: staging.count() + server.proc().staged(),
        }
    }

    /// Of a server that has been left alone until it holds on to the same things for a while.
    pub(crate) fn settled(server: &TestServer) -> Self {
        let (mut last, mut same) = (Self::of(server), 0);
        while same < 5 {
            thread::sleep(Duration::from_millis(5));
            let now = Self::of(server);
            same = if now == last { same + 1 } else { 0 };
            last = now;
        }
        last
    }

    /// What is held now that was not before, if it is not let go in time.
    pub(crate) fn leaked(&self, server: &TestServer, patience: Duration) -> Result<(), String> {
        let mut now = Self::of(server);
        let is_let_go = within(patience, || {
            now = Self::of(server);
            now.descriptors <= self.descriptors && now.staged <= self.staged
        });
        let told = || format!("at rest {self:?} before, and {now:?} after");
        is_let_go.then_some(()).ok_or_else(told)
    }
}
