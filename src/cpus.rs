//! Which CPUs threads keep to, with `--pin`: each reactor to one, the threads beside the reactors to those that no reactor
//! has, where there are any.

use rustix::thread::{CpuSet, sched_getaffinity};

/// Where threads may run. Empty when nothing is pinned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cpus {
    allowed: Vec<usize>,
    reactors: usize,
}

impl Cpus {
    /// The CPUs that this process may use, shared out between so many reactors and the rest.
    pub(crate) fn pinned(reactors: usize) -> Self {
        let allowed = sched_getaffinity(None).map_or_else(|_| Vec::new(), |set| numbers(&set));
        Self { allowed, reactors }
    }

    /// The CPU of the reactor with this number.
    pub(crate) fn of_reactor(&self, index: usize) -> Option<usize> {
        let turn = index % self.allowed.len().max(1);
        self.allowed.get(turn).copied()
    }

    /// The CPUs of the threads beside the reactors.
    pub(crate) fn of_others(&self) -> Option<CpuSet> {
        let left = self.allowed.get(self.reactors..).unwrap_or_default();
        let theirs = if left.is_empty() { &self.allowed } else { left };
        let mut set = CpuSet::new();
        for &cpu in theirs {
            set.set(cpu);
        }
        (!theirs.is_empty()).then_some(set)
    }
}

fn numbers(set: &CpuSet) -> Vec<usize> {
    (0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared_out(allowed: &[usize], reactors: usize) -> (Vec<Option<usize>>, Option<Vec<usize>>) {
        let allowed = allowed.to_vec();
        let cpus = Cpus { allowed, reactors };
        let of_reactors = (0..reactors).map(|index| cpus.of_reactor(index)).collect();
        (of_reactors, cpus.of_others().map(|set| numbers(&set)))
    }

    #[test]
    fn others_have_the_cpus_that_no_reactor_has_or_all() {
        let some = |cpus: &[usize]| Some(cpus.to_vec());
        assert_eq!(shared_out(&[0, 1], 1), (vec![Some(0)], some(&[1])));
        assert_eq!(
            shared_out(&[2, 5, 7], 2),
            (vec![Some(2), Some(5)], some(&[7]))
        );
        assert_eq!(
            shared_out(&[0, 1], 2),
            (vec![Some(0), Some(1)], some(&[0, 1]))
        );
        assert_eq!(
            shared_out(&[3, 4], 3),
            (vec![Some(3), Some(4), Some(3)], some(&[3, 4]))
        );
        assert_eq!(shared_out(&[], 1), (vec![None], None));
        assert_eq!(Cpus::default().of_others(), None);
    }
}
