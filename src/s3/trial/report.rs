//! The report of a trial.

use std::fmt;

/// The findings of a trial, row by row.
#[derive(Clone, Debug, Default)]
pub struct Report {
    rows: Vec<Row>,
}

/// One thing that was tried.
#[derive(Clone, Debug)]
pub struct Row {
    /// The thing that the store should do.
    pub what: What,
    /// Whether it does.
    pub verdict: Verdict,
}

/// Whether a store does what it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does, as often as this.
    Holds(u32),
    /// It does not: what it did.
    Fails(String),
}

/// The things that a store should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// An upload that breaks off leaves the old value.
    CutUpload,
    /// An upload whose checksum is wrong is refused.
    WrongChecksum,
    /// A list has the names as they are, in the order of their bytes, page by page.
    ListOrder,
    /// A list begins after any name, also one that is not there.
    ListAfter,
    /// `PUT` with `If-None-Match: *` writes only where there is nothing.
    Create,
    /// `PUT` with `If-Match` writes only over that version.
    Swap,
    /// Of several creations at once one is made.
    CreateRace,
    /// Of several swaps at once one is made.
    SwapRace,
    /// `DELETE` with `If-Match` removes only that version.
    Remove,
    /// Of swaps and removals of one version at once one is made.
    RemoveRace,
    /// A write or a removal through one endpoint is seen through all others at once.
    EndpointReads,
    /// As [`What::CreateRace`], through all endpoints.
    EndpointCreateRace,
    /// As [`What::SwapRace`], through all endpoints.
    EndpointSwapRace,
}

impl Report {
    pub(crate) fn add(&mut self, what: What, verdict: Verdict) {
        self.rows.push(Row { what, verdict });
    }

    /// Everything that was tried.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The first of these things that the store does wrong.
    pub fn fault<'a>(&'a self, of: &'a [What]) -> Option<&'a str> {
        self.faults_of(of).next()
    }

    /// All that keeps it from being served, in one line.
    pub fn faults(&self) -> String {
        let needed = self.faults_of(&What::NEEDED);
        let all: Vec<_> = needed.chain(self.faults_of(&What::FOR_PUT)).collect();
        all.join("; ")
    }

    fn faults_of<'a>(&'a self, of: &'a [What]) -> impl Iterator<Item = &'a str> {
        let rows = self.rows.iter().filter(|row| of.contains(&row.what));
        rows.filter_map(|row| match &row.verdict {
            Verdict::Fails(how) => Some(how.as_str()),
            Verdict::Holds(_) => None,
        })
    }

    /// Whether it can be served without `--s3-conditions off`.
    pub fn is_servable(&self) -> bool {
        self.fault(&What::NEEDED).is_none() && self.fault(&What::FOR_PUT).is_none()
    }

    /// Whether it was seen to do this.
    pub fn keeps(&self, what: What) -> bool {
        let mut rows = self.rows.iter();
        rows.any(|row| row.what == what && matches!(row.verdict, Verdict::Holds(_)))
    }
}

impl What {
    /// The things that a value store cannot do without.
    pub const NEEDED: [Self; 4] = [
        Self::CutUpload,
        Self::ListOrder,
        Self::ListAfter,
        Self::EndpointReads,
    ];
    /// The things that conditional writes need.
    pub const FOR_PUT: [Self; 6] = [
        Self::Create,
        Self::Swap,
        Self::CreateRace,
        Self::SwapRace,
        Self::EndpointCreateRace,
        Self::EndpointSwapRace,
    ];
    /// The things that conditional removals need.
    pub const FOR_DELETE: [Self; 2] = [Self::Remove, Self::RemoveRace];

    fn text(self) -> &'static str {
        match self {
            Self::CutUpload => "an upload that breaks off leaves the old value",
            Self::WrongChecksum => "an upload with a wrong checksum is refused",
            Self::ListOrder => "a list has the names as they are, in byte order",
            Self::ListAfter => "a list begins after any name, also an absent one",
            Self::Create => "PUT with If-None-Match: * creates only",
            Self::Swap => "PUT with If-Match replaces that version only",
            Self::CreateRace => "of 8 creations at once, one is made",
            Self::SwapRace => "of 8 swaps at once, one is made",
            Self::Remove => "DELETE with If-Match removes that version only",
            Self::RemoveRace => "of 4 swaps and 4 removals at once, one is made",
            Self::EndpointReads => "a change through one endpoint is so for all others",
            Self::EndpointCreateRace => "of 8 creations through all endpoints, one is made",
            Self::EndpointSwapRace => "of 8 swaps through all endpoints, one is made",
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Row { what, verdict } in &self.rows {
            let text = what.text();
            match verdict {
                Verdict::Holds(times) => writeln!(f, "{text:<52} yes, {times} times")?,
                Verdict::Fails(how) => writeln!(f, "{text:<52} NO: {how}")?,
            }
        }
        Ok(())
    }
}
