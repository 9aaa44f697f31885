//! A listener of a test's own, for what stands between a client and a server.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// An address whose connections a function is given, until this is dropped.
pub struct Accepting {
    pub addr: SocketAddr,
    over: Arc<AtomicBool>,
}

impl Accepting {
    /// `handle` starts a thread for what takes time.
    #[track_caller]
    pub fn with(mut handle: impl FnMut(TcpStream) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let addr = listener.local_addr().expect("its address");
        let over = Arc::<AtomicBool>::default();
        let is_over = Arc::clone(&over);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if is_over.load(Ordering::Acquire) {
                    return;
                }
                handle(client);
            }
        });
        Self { addr, over }
    }
}

impl Drop for Accepting {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        // Wakes the listener.
        let _ = TcpStream::connect(self.addr);
    }
}
