//! What a place gives.

use std::time::SystemTime;

use super::super::secrets::Secrets;

/// Secrets, and when they end.
pub(super) struct Renewed {
    pub(super) secrets: Secrets,
    pub(super) expires: Option<SystemTime>,
}
