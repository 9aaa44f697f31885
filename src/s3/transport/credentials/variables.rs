//! The variables of the environment that say where secrets are.

use std::collections::HashMap;
use std::path::PathBuf;

/// Variables by name. Some hold secrets, so it has no `Debug`.
pub struct Variables(HashMap<String, String>);

impl Variables {
    /// Those of this process.
    pub fn of_process() -> Self {
        let all = std::env::vars_os();
        let text = all.filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        let is_ours = |name: &str| name == "HOME" || name.starts_with("AWS_");
        Self(text.filter(|(name, _)| is_ours(name)).collect())
    }

    /// The value of a variable; one that is empty is not set.
    pub fn get(&self, name: &str) -> Option<&str> {
        let value = self.0.get(name).map(String::as_str);
        value.filter(|value| !value.is_empty())
    }

    pub fn is_true(&self, name: &str) -> bool {
        self.get(name)
            .is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// The file that `name` names, or the one in the directory `.aws` of the user.
    pub fn file(&self, name: &str, default: &str) -> Option<PathBuf> {
        let named = self.get(name).map(PathBuf::from);
        named.or_else(|| Some(PathBuf::from(self.get("HOME")?).join(".aws").join(default)))
    }

    #[cfg(test)]
    pub fn of(pairs: &[(&str, &str)]) -> Self {
        let owned = pairs
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()));
        Self(owned.collect())
    }
}
