//! The child: calls NVML, and says what came of it. It ends with the agent's end of the socket.

use super::device::Eye;
use super::words::{Answer, Ask, read, write};
use crate::discover::nvml::open;
use crate::sys::{clock, process};
use nvml_wrapper::Nvml;
use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

/// Serves the socket that is this program's standard input.
pub fn main() -> ExitCode {
    // A library that crashes fills no disk.
    process::set_soft_limit(libc::RLIMIT_CORE, 0).ok();
    let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3);
    let Ok(mut socket) = socket.map(UnixStream::from) else {
        return ExitCode::FAILURE;
    };
    let nvml = loop {
        match read(&mut socket) {
            Ok(Some(Ask::Begin)) => break open(),
            Ok(Some(Ask::Look { .. })) => {}
            Ok(None) | Err(_) => return ExitCode::FAILURE,
        }
    };
    let ready = nvml.as_ref().map(drop).map_err(Clone::clone);
    if write(&mut socket, &Answer::Ready(ready)).is_err() {
        return ExitCode::FAILURE;
    }
    match &nvml {
        Ok(nvml) => serve(nvml, &mut socket),
        Err(_) => ExitCode::FAILURE,
    }
}

fn serve(nvml: &Nvml, socket: &mut UnixStream) -> ExitCode {
    let mut eyes: BTreeMap<u32, Eye<'_>> = BTreeMap::new();
    while let Ok(Some(ask)) = read(socket) {
        let Ask::Look {
            which,
            deep,
            costly,
        } = ask
        else {
            continue;
        };
        let eye = match eyes.remove(&which.index) {
            Some(eye) => Ok(eye),
            None => Eye::open(nvml, &which),
        };
        let look = eye.and_then(|mut eye| {
            let look = eye.look(deep, costly);
            // One that is lost is looked for anew.
            if look.is_ok() {
                eyes.insert(which.index, eye);
            }
            look.map(Box::new)
        });
        let answer = Answer::Look {
            look,
            cpu_us: u64::try_from(clock::process_cpu().as_micros()).unwrap_or(u64::MAX),
            memory: crate::meter::sampler::resident().unwrap_or(0),
        };
        if write(socket, &answer).is_err() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
