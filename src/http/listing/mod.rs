//! Listings: what is asked, which names are told, and the three formats but for the page.

pub mod perform;
pub mod query;
pub mod request;
pub mod response;
pub mod text;
pub mod unlisted;
