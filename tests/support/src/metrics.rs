//! One scrape of `/-/metrics`, parsed.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::Raw;

/// A sample: its name, its labels and its value.
#[derive(Debug, Clone)]
pub struct Sample {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

/// One answer of `/-/metrics`.
pub struct Scrape {
    pub media_type: String,
    pub text: String,
    pub samples: Vec<Sample>,
}

impl Scrape {
    /// In Prometheus text.
    #[track_caller]
    pub fn of(addr: SocketAddr) -> Self {
        Self::accepting(addr, "*/*")
    }

    #[track_caller]
    pub fn accepting(addr: SocketAddr, accept: &str) -> Self {
        let lines = format!("Accept: {accept}\r\nConnection: close\r\n");
        Self::over(&mut Raw::connect(addr), &lines)
    }

    /// By this connection, with these header lines.
    #[track_caller]
    pub fn over(connection: &mut Raw, lines: &str) -> Self {
        let answer = connection.ask(format!("GET /-/metrics HTTP/1.1\r\nHost: t\r\n{lines}\r\n"));
        assert_eq!(answer.status, 200);
        let media_type = answer.must("content-type").to_owned();
        let text = String::from_utf8(answer.body).expect("text");
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let samples = samples.map(Sample::parse).collect();
        Self {
            media_type,
            text,
            samples,
        }
    }

    /// The samples of this name with these labels among theirs.
    pub fn all<'a>(
        &'a self,
        name: &'a str,
        labels: &'a [(&str, &str)],
    ) -> impl Iterator<Item = &'a Sample> {
        let has = |sample: &Sample, (key, value): &(&str, &str)| {
            sample.labels.get(*key).is_some_and(|v| v == value)
        };
        let matches = move |s: &&Sample| s.name == name && labels.iter().all(|l| has(s, l));
        self.samples.iter().filter(matches)
    }

    /// The sum of [`Scrape::all`], as a whole number.
    pub fn count(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        let sum = self.sum(name, labels).to_string();
        sum.parse().expect("a whole number")
    }

    /// The sum of [`Scrape::all`].
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        // An empty sum is negative zero, which would not print as a whole number.
        let values = self.all(name, labels).map(|sample| sample.value);
        values.fold(0.0, |sum, value| sum + value)
    }

    /// The value of a metric with one sample.
    #[track_caller]
    pub fn only(&self, name: &str) -> f64 {
        let values: Vec<f64> = self.all(name, &[]).map(|sample| sample.value).collect();
        assert_eq!(values.len(), 1, "samples of {name} in:\n{}", self.text);
        values[0]
    }
}

impl Sample {
    #[track_caller]
    fn parse(line: &str) -> Self {
        let (series, value) = line.rsplit_once(' ').expect("a value");
        let (name, labels) = match series.split_once('{') {
            Some((name, labels)) => (name, labels.strip_suffix('}').expect("a brace")),
            None => (series, ""),
        };
        let label = |text: &str| {
            let (key, value) = text.split_once('=').expect("a label");
            let value = value.strip_prefix('"').and_then(|v| v.strip_suffix('"'));
            (key.to_owned(), value.expect("quotes").to_owned())
        };
        let labels = labels.split(',').filter(|text| !text.is_empty());
        Self {
            name: name.to_owned(),
            labels: labels.map(label).collect(),
            value: value.parse().unwrap_or_else(|_| panic!("a number: {line}")),
        }
    }
}
