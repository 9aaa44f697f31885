//! The kernel's figures of this process: memory, descriptors, processor time.
//!
//! Reads `/proc` alone, which waits for no device. What cannot be read is 0: a scrape has no use for an error.

use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};

/// The process at this moment.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    /// Memory that is resident, in bytes.
    pub resident: u64,
    /// Open descriptors.
    pub descriptors: u64,
    /// Processor time used by all threads, in seconds.
    pub cpu: f64,
}

/// Reads what the kernel says now.
pub fn read() -> Process {
    Process {
        resident: resident().unwrap_or(0),
        descriptors: descriptors(),
        cpu: cpu(),
    }
}

/// When the process was started, in seconds since 1970; to be asked once, soon after that.
pub fn started() -> f64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.unwrap_or(Duration::ZERO).as_secs_f64();
    age().map_or(now, |age| now - age)
}

/// `proc_pid_statm(5)`: the second number is the resident pages.
fn resident() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// Since Linux 6.2 the directory's size is the number of descriptors; before, they are counted one by one.
fn descriptors() -> u64 {
    const DIR: &str = "/proc/self/fd";
    match std::fs::metadata(DIR).map(|dir| dir.len()) {
        Ok(0) | Err(_) => std::fs::read_dir(DIR).map_or(0, |dir| dir.count() as u64),
        Ok(open) => open,
    }
}

fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).map_or(0.0, |time| time.as_secs_f64())
}

/// Seconds since the process was started. `proc_pid_stat(5)`: the 22nd field, in ticks since the boot; the 2nd is a name in
/// brackets that may hold anything.
fn age() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let ticks: f64 = stat.rsplit_once(')')?.1.split(' ').nth(20)?.parse().ok()?;
    let per_second = u32::try_from(rustix::param::clock_ticks_per_second()).ok()?;
    let now = Duration::try_from(clock_gettime(ClockId::Boottime)).ok()?;
    Some(now.as_secs_f64() - ticks / f64::from(per_second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_is_seen() {
        let process = read();
        assert!(process.resident > 100_000, "{process:?}");
        assert!(process.descriptors >= 3, "{process:?}");
        assert!(process.cpu > 0.0, "{process:?}");
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let age = now.unwrap().as_secs_f64() - started();
        assert!((0.0..3600.0).contains(&age), "{age}");
    }

    #[test]
    fn an_open_file_is_one_descriptor_more() {
        let most = |n: usize| {
            let files: Vec<_> = (0..n)
                .map(|_| std::fs::File::open("/proc/self/stat"))
                .collect();
            let open = descriptors();
            drop(files);
            open
        };
        assert!(most(200) >= most(0) + 150);
    }
}
