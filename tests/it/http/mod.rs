//! The protocol: statuses, fields and framing, and that no setting changes them.

mod closing;
mod contract;
mod dispatch;
mod folders;
pub(crate) mod forms;
mod framing;
mod html_index;
mod html_listing;
mod keys;
mod listing;
mod page;
mod parameters;
mod pipelining;
mod preconditions;
mod protocol;
mod requests;
mod rfc_compliance;
mod states;
mod takeover;

/// Names that mean something in a path, a header, a page or a terminal, divided by `|`.
const ODD_NAMES: &str = "A|a b|a+b|a&b|a%2Fb|%|a\nb|\r\n|\"|'|\\|<script>|<script>alert(1)<|javascript:alert(1)|http:|:|\u{1b}[2J|\u{7f}|\
    e\u{301}|\u{e9}|\u{1f980}|&after=z|#|?x=y|...|~|index.html|\u{202e}gpj|-";
