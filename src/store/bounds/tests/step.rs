//! The steps of the model of bounds: what clients, other programs, the index and the server itself do.

#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A value of so many blocks is put; where it `fails`, after it had room.
    Put {
        key: usize,
        blocks: u64,
        fails: bool,
    },
    Delete(usize),
    Read(usize),
    /// By another program, so many seconds ago.
    Place {
        key: usize,
        blocks: u64,
        age: u64,
    },
    /// By another program.
    Remove(usize),
    /// The folder of this number takes the name of the other one, where nothing is there.
    Move(usize),
    /// The server ends in order, and another goes on from what it has noted.
    Restart,
    /// All is counted anew, while these are made after so many names.
    Count(usize, Vec<Step>),
    /// The same for the names below one folder.
    Reread(&'static str, usize, Vec<Step>),
    /// The disk needs so many blocks.
    Disk(u64),
}
