//! From which devices of a node a part may be served, each way that could matter once.

use super::state::{Devices, Part, State};

/// Every way; the caller has checked that the part fits. A part without devices has one way: none.
///
/// One device: one of each kind. Several: as few sockets as possible, one model if possible, the least that is free of a
/// device first; one way for each model and socket that can serve it.
pub(super) fn of(state: &State, part: &Part) -> Vec<Vec<Devices>> {
    let serving = || state.devices().iter().filter(|d| d.serves(part));
    match part.gpus {
        0 => vec![Vec::new()],
        1 => serving()
            .map(|d| vec![Devices { count: 1, ..*d }])
            .collect(),
        gpus => {
            let serving: Vec<Devices> = serving().copied().collect();
            several(&serving, gpus, part.one_socket)
        }
    }
}

fn several(serving: &[Devices], gpus: u32, one_socket: bool) -> Vec<Vec<Devices>> {
    let mut models: Vec<u8> = serving.iter().map(|d| d.model).collect();
    models.sort_unstable();
    models.dedup();
    let of_model = |model: u8| {
        let alike = serving.iter().filter(move |d| d.model == model);
        alike.copied().collect::<Vec<_>>()
    };
    let mut ways = Vec::new();
    for model in &models {
        for socket in sockets(&of_model(*model)) {
            ways.extend(take(&socket, gpus));
        }
    }
    if one_socket {
        // Models may differ, sockets must not.
        if ways.is_empty() {
            let nearby = sockets(serving).into_iter();
            ways.extend(nearby.filter_map(|socket| take(&socket, gpus)));
        }
        return ways;
    }
    if ways.is_empty() {
        for model in &models {
            let fullest_first: Vec<Devices> = sockets(&of_model(*model)).concat();
            ways.extend(take(&fullest_first, gpus));
        }
    }
    if ways.is_empty() {
        ways.extend(take(&sockets(serving).concat(), gpus));
    }
    ways
}

/// Devices by socket, the socket with the most first.
fn sockets(devices: &[Devices]) -> Vec<Vec<Devices>> {
    let last = devices.iter().map(|d| d.socket).max().unwrap_or(0);
    let near = |socket: u8| {
        let near = devices.iter().filter(move |d| d.socket == socket);
        near.copied().collect::<Vec<_>>()
    };
    let mut sockets: Vec<Vec<Devices>> = (0..=last).map(near).collect();
    sockets.retain(|devices| !devices.is_empty());
    let count = |devices: &Vec<Devices>| devices.iter().map(|d| u32::from(d.count)).sum::<u32>();
    sockets.sort_by_key(|devices| std::cmp::Reverse(count(devices)));
    sockets
}

/// So many devices in the given order, if there are as many.
fn take(devices: &[Devices], gpus: u32) -> Option<Vec<Devices>> {
    let mut left = gpus;
    let mut taken = Vec::new();
    for d in devices {
        let count = u16::try_from(left).unwrap_or(u16::MAX).min(d.count);
        if count > 0 {
            taken.push(Devices { count, ..*d });
            left -= u32::from(count);
        }
    }
    (left == 0).then_some(taken)
}
