//! The page for browsers, parsed as a browser does: by the rules of HTML, not by the look of its text.

use std::collections::BTreeMap;

use html5ever::parse_document;
use html5ever::tendril::TendrilSink as _;
use markup5ever_rcdom::{Handle, NodeData, RcDom};
use percent_encoding::percent_decode_str;

/// The elements of a parsed page, in the order of the document.
pub struct HtmlPage(Vec<Element>);

/// An element.
#[derive(Clone, Debug)]
pub struct Element {
    pub name: String,
    pub attributes: BTreeMap<String, String>,
    /// All text inside it.
    pub text: String,
    /// The names, ids, classes and attributes of this element and of those around it.
    within: Vec<String>,
}

/// A row of the table of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Where its link leads, as it stands in the page.
    pub href: String,
    /// The text of the link.
    pub text: String,
    pub size: Option<u64>,
    /// RFC 3339.
    pub time: Option<String>,
}

impl Row {
    /// What the link leads to, percent-decoded.
    pub fn target(&self) -> String {
        let decoded = percent_decode_str(&self.href).decode_utf8();
        decoded.expect("UTF-8").into_owned()
    }
}

impl Element {
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).map(String::as_str)
    }

    /// Whether this element, or one around it, has this name, id, class or attribute.
    pub fn is_within(&self, what: &str) -> bool {
        self.within.iter().any(|it| it == what)
    }

    /// An attribute that must be there.
    fn must(&self, name: &str) -> String {
        let value = self.attribute(name);
        let all = value.unwrap_or_else(|| panic!("no {name} in {self:?}"));
        all.to_owned()
    }
}

impl HtmlPage {
    pub fn parse(document: &[u8]) -> Self {
        let text = std::str::from_utf8(document).expect("UTF-8");
        let dom = parse_document(RcDom::default(), html5ever::ParseOpts::default()).one(text);
        let mut elements = Vec::new();
        collect(&dom.document, &[], &mut elements);
        Self(elements)
    }

    /// The element with this id, and those in it.
    pub fn within(&self, id: &str) -> impl Iterator<Item = &Element> {
        self.0.iter().filter(move |element| element.is_within(id))
    }

    /// The element with this id.
    pub fn element(&self, id: &str) -> &Element {
        let found = self.within(id).next();
        found.unwrap_or_else(|| panic!("no element {id}"))
    }

    /// The elements of this name.
    pub fn named(&self, name: &str) -> impl Iterator<Item = &Element> {
        self.0.iter().filter(move |element| element.name == name)
    }

    /// Where the link with `rel="next"` leads.
    pub fn next(&self) -> Option<String> {
        let mut links = self.named("a");
        let next = links.find(|link| link.attribute("rel") == Some("next"));
        next.map(|link| link.must("href"))
    }

    /// The links of the folders above, each with its text.
    pub fn crumbs(&self) -> Vec<(String, String)> {
        let links = self.within("crumbs").filter(|element| element.name == "a");
        let all = links.map(|link| (link.must("href"), link.text.clone()));
        all.collect()
    }

    /// The rows of the table of keys.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        for element in self.within("rows").skip(1) {
            if element.name == "tr" {
                rows.push(Row::default());
            }
            let row = rows.last_mut().expect("cells are in rows");
            match &*element.name {
                "a" => {
                    assert!(row.href.is_empty(), "one link a row: {element:?}");
                    row.href = element.must("href");
                    row.text.clone_from(&element.text);
                }
                "data" => row.size = Some(element.must("value").parse().expect("a size")),
                "time" => row.time = Some(element.must("datetime")),
                _ => {}
            }
        }
        rows
    }
}

/// Adds the elements below `node`; the text in it.
fn collect(node: &Handle, within: &[String], elements: &mut Vec<Element>) -> String {
    let mut within = within.to_vec();
    let mut own = None;
    if let NodeData::Text { contents } = &node.data {
        return contents.borrow().to_string();
    }
    if let NodeData::Element { name, attrs, .. } = &node.data {
        let attributes = attrs.borrow();
        let pairs = attributes.iter().map(|it| (&it.name.local, &it.value));
        let pairs = pairs.map(|(name, value)| (name.to_string(), value.to_string()));
        let attributes: BTreeMap<_, _> = pairs.collect();
        within.push(name.local.to_string());
        within.extend(attributes.keys().cloned());
        within.extend(attributes.get("id").cloned());
        let classes = attributes.get("class").map_or("", String::as_str);
        within.extend(classes.split_whitespace().map(str::to_owned));
        own = Some(elements.len());
        elements.push(Element {
            name: name.local.to_string(),
            attributes,
            text: String::new(),
            within: within.clone(),
        });
    }
    let children = node.children.borrow();
    let texts = children.iter();
    let texts = texts.map(|child| collect(child, &within, elements));
    let text: String = texts.collect();
    if let Some(own) = own {
        elements[own].text.clone_from(&text);
    }
    text
}
