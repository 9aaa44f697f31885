//! Forms with files: what their parts mean, how they arrive, what is done with them, what is answered.

pub mod parts;
pub mod perform;
pub mod request;
pub mod response;
