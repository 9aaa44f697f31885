//! Values in an S3 store: what breaks off in the middle, and what many long ones cost.

mod cuts;
mod memory;

use crate::prelude::*;
use crate::support::relay::{Faults, GOOD, Relay};
use crate::support::s3::Bucket;

/// The network between the server and the store.
struct Network {
    relay: Relay,
    faults: Arc<Mutex<Faults>>,
}

impl Network {
    fn to(store: SocketAddr) -> Self {
        let faults = Arc::new(Mutex::new(GOOD));
        let drawn = Arc::clone(&faults);
        let relay = Relay::to(store, move || *drawn.lock().expect("no panic"));
        Self { relay, faults }
    }

    /// From now on, every new connection has these.
    fn have(&self, faults: Faults) {
        *self.faults.lock().expect("no panic") = faults;
    }

    /// A new server over this bucket, with no connection from before: those that it makes have these faults.
    fn serve(&self, bucket: &Bucket, faults: Faults) -> TestServer {
        self.have(GOOD);
        let server = serve(&bucket.at(&[self.relay.addr()]));
        self.have(faults);
        server
    }
}

/// A server without conditional writes: it starts faster.
fn serve(bucket: &Bucket) -> TestServer {
    let args = ["--s3-conditions", "off", "--s3-timeout", "2s"];
    Launch::new(&args).on_bucket(bucket).start()
}
