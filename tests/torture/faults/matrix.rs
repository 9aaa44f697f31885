//! Which calls are made to fail, and how: every one that a trace shows, but for those that cannot fail in this way.

use crate::prelude::*;

/// What strace has calls fail with.
pub(super) const ERRORS: [&str; 10] = [
    "EIO", "ENOSPC", "EDQUOT", "EROFS", "EACCES", "EMFILE", "ENFILE", "EINTR", "EAGAIN", "ENOMEM",
];

/// How often at most a thread is let through before its call fails, and one more.
pub(super) const DEPTH: usize = 8;

/// Calls that are left to the kernel, and why. Every other call of the server is made to fail.
const SPARED: &[(&str, &str)] = &[
    (
        "close",
        "the kernel gives the descriptor up even when it reports an error, and strace would keep it open",
    ),
    (
        "mmap mremap brk munmap mprotect madvise",
        "memory: a program in Rust that gets none ends, by design",
    ),
    (
        "futex restart_syscall epoll_wait epoll_pwait sched_yield gettid getpid rt_sigprocmask rt_sigaction rt_sigreturn \
         sigaltstack rseq prctl set_robust_list exit exit_group arch_prctl set_tid_address prlimit64 getrandom execve wait4 \
         tgkill",
        "threads, locks and waiting of the runtime: the kernel has no such errors for them",
    ),
];

/// Errors on a socket that strace can only pretend: the kernel says `EAGAIN` when there is nothing, and rings when
/// there is; after a pretended one it never rings.
const SOCKET: [&str; 9] = [
    "accept4", "recvfrom", "sendto", "sendmsg", "sendfile", "recvmsg", "shutdown", "ppoll",
    "splice",
];

/// The path of the descriptor that is the first argument of `call`, as strace shows it with `-y`.
pub(super) fn first_path(call: &Call) -> Option<&str> {
    let (descriptor, rest) = call.args.split_once('<')?;
    let is_number = !descriptor.is_empty() && descriptor.bytes().all(|b| b.is_ascii_digit());
    let path = rest.split_once(['>', ','])?.0;
    is_number.then_some(path)
}

/// Whether `call` is one to be made to fail: not spared, and not on a descriptor of the runtime or of the log.
pub(super) fn can_fail(call: &Call) -> bool {
    let mut spared = SPARED.iter().flat_map(|(names, _)| names.split(' '));
    let is_spared = spared.any(|name| name == call.name);
    let path = first_path(call).unwrap_or_default();
    let is_runtimes = path.starts_with("anon_inode:[event") && call.name != "epoll_ctl";
    let is_output = call.args.starts_with("1<") || call.args.starts_with("2<");
    let is_signals = path.starts_with("socket:") && call.args.contains("\"\\1\", 1");
    !(is_spared || is_runtimes || is_output || is_signals)
}

/// Whether the kernel could have `call` fail so.
pub(super) fn is_possible(call: &str, error: &str) -> bool {
    match error {
        "EAGAIN" => !SOCKET.contains(&call),
        _ if call == "clone3" => error == "ENOMEM",
        _ => true,
    }
}

/// One call made to fail: the `nth` that a thread makes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) call: String,
    pub(super) error: &'static str,
    pub(super) nth: usize,
}

impl Fault {
    /// The words of strace's option.
    pub(super) fn injection(&self) -> String {
        let Self { call, error, nth } = self;
        format!("inject={call}:error={error}:when={nth}")
    }
}

/// Every fault of these calls, at the first time and, `deep`, at a later one as well.
pub(super) fn faults(calls: &BTreeSet<String>, deep: bool) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (at, (call, error)) in possible(calls, |call| call).into_iter().enumerate() {
        let later = 2 + (faults.len() + at) % (DEPTH - 1);
        for nth in [1, later].into_iter().take(if deep { 2 } else { 1 }) {
            let call = call.clone();
            faults.push(Fault { call, error, nth });
        }
    }
    faults
}

/// Each of these calls with each error that the kernel could have it fail with.
pub(super) fn possible<'a, C>(
    calls: impl IntoIterator<Item = &'a C>,
    name: impl Fn(&C) -> &str,
) -> Vec<(&'a C, &'static str)> {
    let calls = calls.into_iter();
    let both = calls.flat_map(|call| ERRORS.map(|error| (call, error)));
    let all = both.filter(|(call, error)| is_possible(name(call), error));
    all.collect()
}

/// `count` of `all`, spread evenly.
pub(super) fn spread<T: Clone>(all: &[T], count: usize) -> Vec<T> {
    let count = count.min(all.len());
    let these = (0..count).map(|n| all[n * all.len() / count].clone());
    these.collect()
}

#[test]
fn a_spread_reaches_from_the_first_on_and_repeats_nothing() {
    let all: Vec<_> = (0..100).collect();
    assert_eq!(spread(&all, 4), [0, 25, 50, 75]);
    assert_eq!(spread(&all, 200), all);
}
