//! The integration tests: the real binary, real sockets, one module per behaviour.

mod architecture;
mod broken;
mod capacity;
mod contract;
mod disk;
mod drain;
mod exits;
mod framing;
mod hot;
mod kernel;
mod keys;
mod limits;
mod load;
mod logs;
mod memory;
mod modes;
mod planted;
mod process;
mod protocol;
mod racing;
mod reading;
mod restart;
mod support;
mod uploads;
