//! The rule that a server which other machines reach is closed to them, unless it is said in words that it is open.
//!
//! Owns the rule alone: what makes a place wide is [`Listen::is_exposed`]'s to say.

use super::{BadConfig, ListenConfig};

impl ListenConfig {
    /// Refuses a place that other machines reach, where those may change values: unless it `is_guarded`, so that not all of
    /// them may, or the options allow that in words.
    pub(super) fn check_exposure(&self, is_guarded: bool) -> Result<(), BadConfig> {
        if is_guarded || self.allow_anonymous {
            return Ok(());
        }
        match self.at.iter().find(|listen| listen.is_exposed()) {
            Some(listen) => Err(BadConfig::Exposed {
                listen: listen.clone(),
            }),
            None => Ok(()),
        }
    }
}
