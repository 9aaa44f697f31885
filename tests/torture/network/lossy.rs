//! Packets that are really lost: client and server run in a network namespace of their own, whose kernel drops some.
//!
//! The test starts itself again in there. What TCP makes good must be made good: no value is half, and next to every
//! transfer succeeds, with 1% every one.

use std::env;

use super::Bench;
use super::transfer::Transfer;
use crate::prelude::*;
use crate::support::relay::GOOD;

/// Set in the namespace: how many packets of a hundred are lost there.
pub(super) const LOSS: &str = "DATA_SERVER_TORTURE_LOSS";

/// Brings up a loopback with packets of an Ethernet's size, drops so many of a hundred, and runs the rest.
const NAMESPACE: &str = "ip link set lo mtu 1500 up && nft \"add table ip lossy; \
    add chain ip lossy in { type filter hook input priority 0; }; \
    add rule ip lossy in numgen random mod 100 < $1 drop\" && shift && exec \"$@\"";

/// `command`, in a network where `percent` packets of a hundred are lost.
fn losing(percent: u64, command: &[&str]) -> Command {
    let (percent, path) = (percent.to_string(), env::var("PATH").unwrap_or_default());
    let mut unshare = Command::new("unshare");
    unshare.args(["--net", "sh", "-c", NAMESPACE, "sh", &percent]);
    unshare.args(command).env(LOSS, percent);
    unshare.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    unshare
}

/// Starts the test `name` again, where so many percent of the packets are lost.
pub(super) fn again_where_packets_are_lost(name: &str, percents: &[u64]) {
    let possible = losing(0, &["true"]).output();
    let possible = possible.is_ok_and(|output| output.status.success());
    only_where!(possible, name, "no network namespace, or no nft, here");
    let this = env::current_exe().expect("this program");
    let this = this.to_str().expect("a path in UTF-8");
    for &percent in percents {
        let status = losing(percent, &[this, "--exact", name, "--nocapture"]).status();
        let is_right = status.expect("this program again").success();
        assert!(is_right, "{percent}% lost");
    }
}

/// Segments that the kernel has sent again, in this network.
fn sent_again() -> u64 {
    let counts = fs::read_to_string("/proc/thread-self/net/snmp").expect("counts");
    let mut rows = counts.lines().filter(|line| line.starts_with("Tcp:"));
    let mut row = || rows.next().unwrap_or_default().split(' ');
    let (names, values) = (row(), row());
    let mut columns = names.zip(values);
    let found = columns.find(|(name, _)| *name == "RetransSegs");
    found.expect("a count").1.parse().expect("a number")
}

#[test]
fn a_lossy_network_costs_time_and_no_value() {
    if let Ok(percent) = env::var(LOSS) {
        return transfer_all(&percent);
    }
    let name = "network::lossy::a_lossy_network_costs_time_and_no_value";
    again_where_packets_are_lost(name, &[1, 10]);
}

fn transfer_all(percent: &str) {
    let count = scaled(24, 500);
    let mut random = Random::with_seed(seed("lossy network"));
    let mut transfers: Vec<_> = (0..count).map(|n| Transfer::of(n, &mut random)).collect();
    for transfer in &mut transfers {
        transfer.faults = GOOD;
    }
    let bench = Bench::over(true);
    let faults = bench.all(&transfers);
    assert!(faults.is_empty(), "{faults:#?}");
    assert_eq!(bench.settle(DEADLINE), Ok(()));
    let again = sent_again();
    let given_up = bench.counts.given_up.into_inner();
    // Where much is lost, a request now and then takes longer than a client waits or the server allows.
    let most = if percent == "1" { 0 } else { count / 20 };
    assert!(given_up <= most, "{given_up} of {count} were given up");
    let counts = format!("{again} sent again, {count} transfers, {given_up} given up");
    counted!("lossy network: {percent}% of packets lost, {counts}, none half");
    assert!(again > 0, "no packet was lost");
}
