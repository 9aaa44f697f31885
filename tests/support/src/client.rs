//! A client that keeps one connection alive over many small requests, and opens it again after a refusal closed it.

use std::net::SocketAddr;

use super::{Raw, Response, put_head};

/// One keep-alive connection, opened again after a refusal closed it.
pub struct Client {
    addr: SocketAddr,
    connection: Option<Raw>,
}

impl Client {
    pub fn new(addr: SocketAddr) -> Self {
        Self {
            addr,
            connection: None,
        }
    }

    pub fn ask(&mut self, method: &str, path: &str) -> Response {
        self.exchange(format!("{method} /{path} HTTP/1.1\r\nHost: t\r\n\r\n").into_bytes())
    }

    pub fn put(&mut self, path: &str, value: impl AsRef<[u8]>) -> Response {
        let value = value.as_ref();
        let head = put_head(path, value.len());
        let response = self.exchange([head.as_bytes(), value].concat());
        if response.status != 200 {
            self.connection = None;
        }
        response
    }

    fn exchange(&mut self, request: Vec<u8>) -> Response {
        let addr = self.addr;
        let connection = self.connection.get_or_insert_with(|| Raw::connect(addr));
        let response = connection.ask(request);
        if response.closes() {
            self.connection = None;
        }
        response
    }
}
