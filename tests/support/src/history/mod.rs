//! The judge of histories of two folders: what was asked of them and told, by clients and by hands, and whether there
//! is an order of that. It stands here, and not beside its tests, because it is built to be quick here.

mod model;
mod order;
mod steps;

pub use model::{Asked, By, Event, Only, PLACES, Told, Tree, UNHEARD, UNTOLD, Value, Version, at};
pub use order::{MOST_ACTORS, Verdict, beginning, judge, mark_meetings};
