//! The settings of credentials: the profile in `~/.aws/credentials` and `~/.aws/config`, and the variables of the environment.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use crate::s3::transport::sign::Secrets;

/// The files, and the profile in them.
pub struct Profile {
    name: String,
    /// Whether it was asked for by its name.
    pub is_named: bool,
    credentials: Option<PathBuf>,
    config: Option<PathBuf>,
}

/// The settings of a profile. They hold secrets, so there is no `Debug`.
pub struct Settings(HashMap<String, String>);

impl Profile {
    pub fn new(variables: &Variables) -> Self {
        let named = variables.get("AWS_PROFILE");
        Self {
            name: named.unwrap_or("default").to_owned(),
            is_named: named.is_some(),
            credentials: variables.file("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
            config: variables.file("AWS_CONFIG_FILE", "config"),
        }
    }

    /// Where they are.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> + use<> {
        let files = [self.credentials.clone(), self.config.clone()];
        files.into_iter().flatten()
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads the files; a setting of `credentials` wins. A file that is not there has no profile.
    pub fn read(&self) -> Settings {
        let mut settings = HashMap::new();
        for (file, prefix) in [(&self.config, "profile "), (&self.credentials, "")] {
            let text = file.as_ref().and_then(|file| fs::read_to_string(file).ok());
            settings.extend(section(&text.unwrap_or_default(), prefix, &self.name));
        }
        Settings(settings)
    }
}

impl Settings {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The keys that stand in the profile itself.
    pub fn secrets(&self) -> Option<Secrets> {
        Some(Secrets {
            id: self.get("aws_access_key_id")?.to_owned(),
            secret: self.get("aws_secret_access_key")?.to_owned(),
            token: self.get("aws_session_token").map(str::to_owned),
        })
    }
}

/// The settings of the section of this profile. In one of the files, names but `default` have a prefix.
fn section(text: &str, prefix: &str, name: &str) -> HashMap<String, String> {
    let mut settings = HashMap::new();
    let mut is_inside = false;
    for line in text.lines() {
        // What is indented belongs to the setting above it.
        if line.starts_with([' ', '\t', '#', ';']) {
            continue;
        }
        let line = line.trim_end();
        if let Some(title) = line
            .strip_prefix('[')
            .and_then(|line| line.split(']').next())
        {
            let title = title.trim();
            let own = title.strip_prefix(prefix).map_or(title, str::trim);
            is_inside = own == name && (own != title || prefix.is_empty() || name == "default");
        } else if let Some((key, value)) = line.split_once('=').filter(|_| is_inside) {
            settings.insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    settings
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_of_a_profile_are_those_of_its_section() {
        let text = "[default]\nA = 1\n# a = 2\n[profile x]\na=3 \ns3 =\n  a = 9\nb = c=d\n[y]\na = 4\n[profile y]\n";
        let a = |prefix, name| section(text, prefix, name).remove("a");
        assert_eq!(a("profile ", "default").as_deref(), Some("1"));
        assert_eq!(a("profile ", "x").as_deref(), Some("3"));
        assert_eq!(
            a("profile ", "y"),
            None,
            "without its prefix it is no profile"
        );
        assert_eq!(a("", "y").as_deref(), Some("4"));
        assert_eq!(section(text, "profile ", "x")["b"], "c=d");
        assert!(section(text, "profile ", "none").is_empty());
    }
}
