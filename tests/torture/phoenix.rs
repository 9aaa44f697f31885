//! A server over a bucket that is killed, and started again on the same socket, as with a service manager: a request to one
//! that was killed is cut off, and the next one waits for the next server.

use crate::support::prelude::*;
use crate::support::s3::Bucket;

pub(crate) struct Phoenix {
    socket: TcpListener,
    bucket: Bucket,
    server: TestServer,
}

impl Phoenix {
    pub(crate) fn new(bucket: Bucket) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
        let server = Self::start(&socket, &bucket);
        Self {
            socket,
            bucket,
            server,
        }
    }

    fn start(socket: &TcpListener, bucket: &Bucket) -> TestServer {
        let launch = Launch::new(&["--threads", "2", "--s3-timeout", "2s"]);
        launch.on_bucket(bucket).passing(socket).start()
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.socket.local_addr().expect("its address")
    }

    pub(crate) fn kill(&mut self) {
        self.server.kill();
    }

    pub(crate) fn rise(&mut self) {
        self.server = Self::start(&self.socket, &self.bucket);
    }
}
