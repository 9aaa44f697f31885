//! Resumable uploads: their fields, what is asked, what is done, what is answered.

pub mod fields;
pub mod part;
pub mod perform;
pub mod request;
pub mod response;
