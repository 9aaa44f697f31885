//! Resumable uploads (draft-ietf-httpbis-resumable-upload), through the socket.

mod concurrency;
mod faults;
mod lifetime;
mod limits;
mod protocol;
mod published;
