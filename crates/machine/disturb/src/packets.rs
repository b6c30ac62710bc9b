//! Network packets that flood a CPU with softirqs, sent from another CPU, as from a network card.

use crate::Error;
use nix::sched::{CloneFlags, unshare};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::net::{AddressFamily, SocketAddrV4, SocketType, bind, socket, sockopt};
use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Number of sockets that each packet is delivered to in the softirq, so that receiving takes longer than sending.
const RECEIVERS: usize = 64;
const PORT: u16 = 9;
/// The loopback network's broadcast address: a packet to it reaches all sockets of the port.
const EVERYBODY: Ipv4Addr = Ipv4Addr::new(127, 255, 255, 255);

/// A network namespace of this process, whose packets the kernel handles on one CPU.
pub(crate) struct Network {
    sender: UdpSocket,
    _receivers: Vec<OwnedFd>,
}

impl Network {
    /// Makes the network, which ends with the process. Needs root.
    pub(crate) fn make(cpu: u32) -> Result<Self, Error> {
        private().and_then(|()| Self::receiving_on(cpu)).map_err(|error| {
            Error::Unusable(format!("can't make a network whose packets CPU {cpu} handles: {error}"))
        })
    }

    fn receiving_on(cpu: u32) -> Result<Self, std::io::Error> {
        fs::write("/sys/class/net/lo/flags", "0x1")?;
        // Receive packet steering: Documentation/networking/scaling.rst. The mask's words have 32 bits each, the
        // highest first.
        let words = (0..=cpu / 32).rev().map(|word| if word == cpu / 32 { 1_u32 << (cpu % 32) } else { 0 });
        let mask: Vec<String> = words.map(|word| format!("{word:x}")).collect();
        fs::write("/sys/class/net/lo/queues/rx-0/rps_cpus", mask.join(","))?;
        let receivers = (0..RECEIVERS).map(|_| receiver()).collect::<Result<_, _>>()?;
        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        sender.set_broadcast(true)?;
        Ok(Self { sender, _receivers: receivers })
    }

    /// Sends packets without a pause for `length`.
    pub(crate) fn flood(&self, length: Duration) -> Result<(), Error> {
        let begin = Instant::now();
        while begin.elapsed() < length {
            match self.sender.send_to(b"sordino", (EVERYBODY, PORT)) {
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Enters a network namespace, and a mount namespace with a `/sys` that shows it.
fn private() -> Result<(), std::io::Error> {
    unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS)?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    mount("sysfs", "/sys", "sysfs", MountFlags::empty(), None)?;
    Ok(())
}

/// Opens a socket from which nobody reads: a packet that finds no room is dropped after it was handled.
fn receiver() -> Result<OwnedFd, std::io::Error> {
    let receiver = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    sockopt::set_socket_reuseaddr(&receiver, true)?;
    bind(&receiver, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, PORT))?;
    Ok(receiver)
}
