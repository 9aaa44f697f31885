//! A sorted set of names that takes little more memory than the names themselves.
//!
//! The names lie in chunks, one after the other, without an allocation for each. A change moves the bytes of one chunk.

/// Names of a chunk at most.
const MOST: usize = 256;

/// Bytes of a chunk at most, so that the offsets within it fit 16 bits: more than 60 of the longest names.
const MOST_BYTES: usize = u16::MAX as usize;

/// Bytes that the allocator takes for a chunk beside those it was asked for.
const OVERHEAD: usize = 32;

/// A set of names of at most 1,024 bytes each, in byte order.
#[derive(Debug, Default)]
pub struct Sorted {
    /// In order; none is empty.
    chunks: Vec<Chunk>,
    len: usize,
    bytes: usize,
}

/// Some names, in byte order.
#[derive(Debug, Default)]
struct Chunk {
    /// One name after the other.
    text: String,
    /// Where each of them ends.
    ends: Vec<u16>,
}

impl Sorted {
    /// How many names there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The memory that it takes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds `name`, unless it is there.
    pub fn insert(&mut self, name: &str) {
        let at = self.chunk_for(name);
        let Some(chunk) = self.chunks.get(at) else {
            return self.put(at, Chunk::of(name));
        };
        let Err(position) = chunk.find(name) else {
            return;
        };
        if chunk.has_room_for(name.len()) {
            return self.change(at, |chunk| chunk.insert(position, name));
        }
        match position {
            // Names that come in order, or against it, leave full chunks behind.
            0 => self.put(at, Chunk::of(name)),
            last if last == chunk.len() => self.put(at + 1, Chunk::of(name)),
            _ => {
                let upper = self.change(at, Chunk::split);
                self.put(at + 1, upper);
                self.insert(name);
            }
        }
    }

    /// Removes `name`, if it is there.
    pub fn remove(&mut self, name: &str) {
        let at = self.chunk_for(name);
        let Some(Ok(position)) = self.chunks.get(at).map(|chunk| chunk.find(name)) else {
            return;
        };
        self.change(at, |chunk| chunk.remove(position));
        let left = &self.chunks[at];
        let merges = |next: &Chunk| {
            left.len() + next.len() <= MOST / 2 && left.has_room_for(next.text.len())
        };
        if left.len() == 0 {
            self.take(at);
        } else if self.chunks.get(at + 1).is_some_and(merges) {
            let next = self.take(at + 1);
            self.change(at, |chunk| chunk.append(&next));
        }
    }

    /// Removes the names that begin with `prefix`.
    pub fn remove_all(&mut self, prefix: &str) {
        loop {
            let names = self.from(prefix).take(MOST);
            let gone: Vec<_> = names
                .take_while(|name| name.starts_with(prefix))
                .map(str::to_owned)
                .collect();
            if gone.is_empty() {
                return;
            }
            for name in gone {
                self.remove(&name);
            }
        }
    }

    /// The names from `from` on, in order.
    pub fn from<'a>(&'a self, from: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        let chunks = &self.chunks[self.chunk_for(from)..];
        let before = chunks.first().map_or(0, |chunk| chunk.position(from));
        chunks.iter().flat_map(Chunk::names).skip(before)
    }

    /// Where the chunk is that has `name` or would get it.
    fn chunk_for(&self, name: &str) -> usize {
        let begun = self.chunks.partition_point(|chunk| chunk.name(0) <= name);
        begun.saturating_sub(1)
    }

    fn put(&mut self, at: usize, chunk: Chunk) {
        self.bytes += chunk.bytes();
        self.len += chunk.len();
        self.chunks.insert(at, chunk);
    }

    fn take(&mut self, at: usize) -> Chunk {
        let chunk = self.chunks.remove(at);
        self.bytes -= chunk.bytes();
        self.len -= chunk.len();
        chunk
    }

    fn change<T>(&mut self, at: usize, change: impl FnOnce(&mut Chunk) -> T) -> T {
        let chunk = &mut self.chunks[at];
        let (bytes, len) = (chunk.bytes(), chunk.len());
        let result = change(chunk);
        self.bytes = self.bytes - bytes + chunk.bytes();
        self.len = self.len - len + chunk.len();
        result
    }
}

impl Chunk {
    fn of(name: &str) -> Self {
        let mut chunk = Self::default();
        chunk.insert(0, name);
        chunk
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether one more name fits, or names of so many bytes together.
    fn has_room_for(&self, bytes: usize) -> bool {
        self.len() < MOST && self.text.len() + bytes <= MOST_BYTES
    }

    fn bytes(&self) -> usize {
        let of_ends = self.ends.capacity() * size_of::<u16>();
        self.text.capacity() + of_ends + size_of::<Self>() + OVERHEAD
    }

    /// Where the name at `position` begins.
    fn start(&self, position: usize) -> usize {
        let before = position.checked_sub(1);
        before.map_or(0, |before| usize::from(self.ends[before]))
    }

    fn name(&self, position: usize) -> &str {
        &self.text[self.start(position)..usize::from(self.ends[position])]
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|position| self.name(position))
    }

    /// The position of `name`, or the one that it would get.
    fn find(&self, name: &str) -> Result<usize, usize> {
        let position = self.position(name);
        let is_there = position < self.len() && self.name(position) == name;
        if is_there {
            Ok(position)
        } else {
            Err(position)
        }
    }

    /// How many names come before `name`.
    fn position(&self, name: &str) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.name(middle) < name {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    fn insert(&mut self, position: usize, name: &str) {
        let (start, len) = (self.start(position), offset(name.len()));
        self.text.insert_str(start, name);
        self.ends.insert(position, offset(start));
        for end in &mut self.ends[position..] {
            *end += len;
        }
    }

    fn remove(&mut self, position: usize) {
        let start = self.start(position);
        let end = self.ends.remove(position);
        self.text.replace_range(start..usize::from(end), "");
        for later in &mut self.ends[position..] {
            *later -= end - offset(start);
        }
    }

    /// Keeps the lower half, and returns the upper one.
    fn split(&mut self) -> Self {
        let middle = self.len() / 2;
        let start = self.start(middle);
        let text = self.text.split_off(start);
        let mut ends = self.ends.split_off(middle);
        for end in &mut ends {
            *end -= offset(start);
        }
        self.text.shrink_to_fit();
        self.ends.shrink_to_fit();
        Self { text, ends }
    }

    /// Takes the names of `next` behind its own.
    fn append(&mut self, next: &Self) {
        let start = offset(self.text.len());
        self.text.push_str(&next.text);
        self.ends.extend(next.ends.iter().map(|end| start + end));
    }
}

/// A place within a chunk.
fn offset(bytes: usize) -> u16 {
    u16::try_from(bytes).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use data_server_testing::scaled;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn check(sorted: &Sorted, model: &BTreeSet<String>, from: &str) {
        assert_eq!(sorted.len(), model.len());
        assert!(sorted.from("").eq(model.iter()));
        assert!(sorted.from(from).eq(model.range(from.to_owned()..)));
        assert!(sorted.chunks.iter().all(|chunk| chunk.len() > 0));
        let bytes: usize = sorted.chunks.iter().map(Chunk::bytes).sum();
        assert_eq!(sorted.bytes(), bytes);
    }

    #[test]
    fn names_that_come_in_order_or_against_it_leave_full_chunks() {
        for descending in [false, true] {
            let mut sorted = Sorted::default();
            for n in 0..10 * MOST {
                let n = if descending { 100_000 - n } else { n };
                sorted.insert(&format!("{n:06}"));
            }
            assert_eq!(sorted.chunks.len(), 10);
        }
    }

    #[test]
    fn the_longest_names_fit() {
        let (mut sorted, mut model) = (Sorted::default(), BTreeSet::new());
        for n in 0..3 * MOST {
            let name = format!("{:01024}", n * 7919 % 1000);
            sorted.insert(&name);
            model.insert(name);
            let short = format!("{}", n * 7919 % 1000);
            sorted.insert(&short);
            model.insert(short);
        }
        check(&sorted, &model, "");
        sorted.remove_all("0");
        model.retain(|name| !name.starts_with('0'));
        check(&sorted, &model, "");
        sorted.remove_all("");
        assert_eq!((sorted.len(), sorted.bytes()), (0, 0));
    }

    #[test]
    fn what_is_removed_gives_its_memory_back() {
        let mut sorted = Sorted::default();
        let name = |n: usize| format!("{:06}", n * 7919 % 100_003);
        for n in 0..20_000 {
            sorted.insert(&name(n));
        }
        let full = sorted.bytes();
        assert!(full < 20_000 * 20, "{full} bytes for 20,000 names of 6");
        for n in 100..20_000 {
            sorted.remove(&name(n));
        }
        assert!(sorted.bytes() < full / 20, "{} of {full}", sorted.bytes());
        for n in 0..100 {
            sorted.remove(&name(n));
        }
        assert_eq!((sorted.len(), sorted.bytes()), (0, 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(scaled(24, 256)))]
        #[test]
        fn it_is_a_sorted_set(
            steps in prop::collection::vec((any::<bool>(), 0..3_000_u32), 0..6_000),
            from in 0..3_000_u32,
        ) {
            // Neighbours differ in length and by bytes of more than one kind.
            let name = |n: u32| format!("{}é{n}", n % 7);
            let (mut sorted, mut model) = (Sorted::default(), BTreeSet::new());
            for (index, (adds, n)) in steps.into_iter().enumerate() {
                // More is added first, and more removed later.
                if adds || (index < 3_000 && n % 3 > 0) {
                    sorted.insert(&name(n));
                    model.insert(name(n));
                } else {
                    sorted.remove(&name(n));
                    model.remove(&name(n));
                }
            }
            check(&sorted, &model, &name(from));
        }
    }
}
