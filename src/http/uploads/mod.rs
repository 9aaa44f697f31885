//! Resumable uploads: their fields, what is asked, what is done, what is answered.

pub mod perform;
pub mod request;
pub mod response;
