//! What the library calls, from threads of its own. Each call is handed on at once: the library's thread serves all tasks of the node.

use super::abi::{Info, ModexDone, Module, OPERATION_SUCCEEDED, OpDone, Proc, WILDCARD};
use spur_core::pmix::{Meeting, Purpose, status};
use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

/// Who decides on what the library's clients ask.
pub trait Host: Send + Sync {
    /// This rank has begun.
    fn connected(&self, rank: u32);
    /// It is done.
    fn finalized(&self, rank: u32);
    /// It ends the whole step.
    fn aborts(&self, rank: u32, code: i32, text: &str);
    /// Every rank here that takes part is there, with this.
    fn meet(&self, meeting: Meeting, data: Vec<u8>, waiting: Waiting);
    /// A rank here wants what one of another node has put.
    fn ask(&self, rank: u32, waiting: Waiting);
    /// The answer to [`super::Server::ask`].
    fn told(&self, id: u32, status: i32, data: Vec<u8>);
}

/// Who waits for an answer.
#[derive(Debug)]
pub struct Waiting {
    how: How,
    /// The library's own mark.
    mark: *mut c_void,
}

#[derive(Clone, Copy, Debug)]
enum How {
    Data(ModexDone),
    Done(OpDone),
}

// SAFETY: the mark is only given back to the library, whose answers may come from any thread.
unsafe impl Send for Waiting {}

impl Waiting {
    /// Answers.
    pub fn answer(self, status: i32, data: Vec<u8>) {
        match self.how {
            How::Done(done) => {
                // SAFETY: the library's function, with its own mark, once.
                unsafe { done(status, self.mark) };
            }
            How::Data(done) => {
                let data = Box::new(data);
                let (start, length) = (data.as_ptr().cast::<c_char>(), data.len());
                let kept = Box::into_raw(data);
                // SAFETY: the library's function, with its own mark, once; the data lives until the library releases it.
                unsafe { done(status, start, length, self.mark, Some(release), kept.cast()) };
            }
        }
    }
}

/// Frees what an answer was made of.
unsafe extern "C" fn release(kept: *mut c_void) {
    // SAFETY: made by `Box::into_raw` for this one call.
    drop(unsafe { Box::from_raw(kept.cast::<Vec<u8>>()) });
}

static HOST: OnceLock<(String, Box<dyn Host>)> = OnceLock::new();

/// Puts the host in place; `false` if there is one.
pub(super) fn install(namespace: &str, host: Box<dyn Host>) -> bool {
    HOST.set((namespace.to_owned(), host)).is_ok()
}

/// What the library is given to call.
pub(super) const MODULE: Module = Module {
    client_connected: Some(connected),
    client_finalized: Some(finalized),
    abort: Some(abort),
    fence_nb: Some(fence),
    direct_modex: Some(modex),
    connect: Some(connect),
    disconnect: Some(disconnect),
    job_control: Some(control),
    ..Module::NOTHING
};

/// The rank, if it is one of the step's.
///
/// # Safety
/// It points to a process, or is null.
unsafe fn rank(proc: *const Proc) -> Option<u32> {
    let (namespace, _) = HOST.get()?;
    // SAFETY: by the caller's word.
    let proc = unsafe { proc.as_ref() }?;
    proc.is_of(namespace).then_some(proc.rank)
}

/// A client waits until it is answered; there is no answer to give where the library has no function for it.
fn answered(done: Option<OpDone>, mark: *mut c_void) -> c_int {
    let Some(done) = done else {
        return OPERATION_SUCCEEDED;
    };
    // SAFETY: the library's function, with its own mark, once.
    unsafe { done(status::SUCCESS, mark) };
    status::SUCCESS
}

/// Tells the step's host something of a process of it.
///
/// # Safety
/// The process is the library's own.
unsafe fn host_hears(proc: *const Proc, what: impl FnOnce(&dyn Host, u32)) {
    // SAFETY: by the caller's word.
    if let (Some(rank), Some((_, host))) = (unsafe { rank(proc) }, HOST.get()) {
        what(host.as_ref(), rank);
    }
}

unsafe extern "C" fn connected(
    proc: *const Proc,
    _object: *mut c_void,
    done: Option<OpDone>,
    mark: *mut c_void,
) -> c_int {
    // SAFETY: the library's own process.
    unsafe { host_hears(proc, |host, rank| host.connected(rank)) };
    answered(done, mark)
}

unsafe extern "C" fn finalized(
    proc: *const Proc,
    _object: *mut c_void,
    done: Option<OpDone>,
    mark: *mut c_void,
) -> c_int {
    // SAFETY: the library's own process.
    unsafe { host_hears(proc, |host, rank| host.finalized(rank)) };
    answered(done, mark)
}

/// Whoever ends some of the step ends all of it: what is left could not go on.
unsafe extern "C" fn abort(
    proc: *const Proc,
    _object: *mut c_void,
    code: c_int,
    text: *const c_char,
    _procs: *mut Proc,
    _count: usize,
    done: Option<OpDone>,
    mark: *mut c_void,
) -> c_int {
    let text = super::text(text);
    // SAFETY: the library's own process.
    unsafe { host_hears(proc, |host, rank| host.aborts(rank, code, &text)) };
    answered(done, mark)
}

/// Who takes part: none for every rank; `None` if somebody is of another step.
///
/// # Safety
/// There are so many processes.
unsafe fn ranks(procs: *const Proc, count: usize) -> Option<Vec<u32>> {
    let mut all = Vec::with_capacity(count);
    for at in 0..count {
        // SAFETY: by the caller's word.
        all.push(unsafe { rank(procs.wrapping_add(at)) }?);
    }
    if all.is_empty() || all.contains(&WILDCARD) {
        return Some(Vec::new());
    }
    all.sort_unstable();
    all.dedup();
    Some(all)
}

/// A meeting's beginning.
///
/// # Safety
/// There are so many processes.
unsafe fn meet(
    purpose: Purpose,
    (procs, count): (*const Proc, usize),
    data: Vec<u8>,
    waiting: Waiting,
) -> c_int {
    // SAFETY: by the caller's word.
    match (unsafe { ranks(procs, count) }, HOST.get()) {
        (Some(ranks), Some((_, host))) => {
            host.meet((purpose, ranks), data, waiting);
            status::SUCCESS
        }
        _ => status::NOT_SUPPORTED,
    }
}

unsafe extern "C" fn fence(
    procs: *const Proc,
    count: usize,
    _directives: *const Info,
    _directive_count: usize,
    data: *mut c_char,
    length: usize,
    done: Option<ModexDone>,
    mark: *mut c_void,
) -> c_int {
    let Some(done) = done else {
        return status::NOT_SUPPORTED;
    };
    let how = How::Data(done);
    // SAFETY: so many bytes of the library's own, which stay its own (`pmix_server.h`).
    let brought = unsafe { bytes(data, length) }.to_vec();
    // SAFETY: the library's own processes, so many.
    unsafe {
        meet(
            Purpose::Fence,
            (procs, count),
            brought,
            Waiting { how, mark },
        )
    }
}

/// Both directions of being connected.
///
/// # Safety
/// There are so many processes.
unsafe fn join(
    purpose: Purpose,
    procs: (*const Proc, usize),
    done: Option<OpDone>,
    mark: *mut c_void,
) -> c_int {
    let Some(done) = done else {
        return status::NOT_SUPPORTED;
    };
    let how = How::Done(done);
    // SAFETY: by the caller's word.
    unsafe { meet(purpose, procs, Vec::new(), Waiting { how, mark }) }
}

unsafe extern "C" fn connect(
    procs: *const Proc,
    count: usize,
    _directives: *const Info,
    _directive_count: usize,
    done: Option<OpDone>,
    mark: *mut c_void,
) -> c_int {
    // SAFETY: the library's own processes, so many.
    unsafe { join(Purpose::Connect, (procs, count), done, mark) }
}

unsafe extern "C" fn disconnect(
    procs: *const Proc,
    count: usize,
    _directives: *const Info,
    _directive_count: usize,
    done: Option<OpDone>,
    mark: *mut c_void,
) -> c_int {
    // SAFETY: the library's own processes, so many.
    unsafe { join(Purpose::Disconnect, (procs, count), done, mark) }
}

/// The library asks its host for what it cannot do alone. Without this function it would also refuse what it can: to remove files that
/// a process has named when that has ended.
unsafe extern "C" fn control(
    _proc: *const Proc,
    _targets: *const Proc,
    _target_count: usize,
    _directives: *const Info,
    _directive_count: usize,
    _done: *mut c_void,
    _mark: *mut c_void,
) -> c_int {
    status::NOT_SUPPORTED
}

unsafe extern "C" fn modex(
    proc: *const Proc,
    _directives: *const Info,
    _directive_count: usize,
    done: Option<ModexDone>,
    mark: *mut c_void,
) -> c_int {
    // SAFETY: the library's own process.
    match (unsafe { rank(proc) }, HOST.get(), done) {
        (Some(rank), Some((_, host)), Some(done)) => {
            let how = How::Data(done);
            host.ask(rank, Waiting { how, mark });
            status::SUCCESS
        }
        _ => status::NOT_SUPPORTED,
    }
}

/// The library's answer to a question of ours; the data is its own, and gone afterwards.
pub(super) unsafe extern "C" fn told(
    status: c_int,
    data: *mut c_char,
    length: usize,
    mark: *mut c_void,
) {
    let id = u32::try_from(mark.addr()).unwrap_or(u32::MAX);
    // SAFETY: so many bytes of the library's own, for the time of this call.
    tell(id, status, unsafe { bytes(data, length) });
}

/// Bytes of the library's.
///
/// # Safety
/// There are so many, or the pointer is null; they live as long as the caller says.
unsafe fn bytes<'d>(data: *const c_char, length: usize) -> &'d [u8] {
    if data.is_null() || length == 0 {
        return &[];
    }
    // SAFETY: by the caller's word.
    unsafe { std::slice::from_raw_parts(data.cast::<u8>(), length) }
}

/// Hands an answer on.
pub(super) fn tell(id: u32, status: i32, data: &[u8]) {
    if let Some((_, host)) = HOST.get() {
        host.told(id, status, data.to_vec());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_released_by_who_got_it() {
        unsafe extern "C" fn take(
            status: c_int,
            data: *const c_char,
            length: usize,
            mark: *mut c_void,
            release: Option<super::super::abi::Release>,
            kept: *mut c_void,
        ) {
            // SAFETY: so many bytes were given, until the release.
            let data = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), length) };
            // SAFETY: the mark is the place below.
            unsafe { *mark.cast::<(i32, Vec<u8>)>() = (status, data.to_vec()) };
            // SAFETY: once.
            unsafe { release.expect("there is one")(kept) };
        }
        let mut got = (0, Vec::new());
        let mark = (&raw mut got).cast();
        let how = How::Data(take);
        Waiting { how, mark }.answer(-46, b"data".to_vec());
        assert_eq!(got, (-46, b"data".to_vec()));
        assert_eq!(answered(None, std::ptr::null_mut()), OPERATION_SUCCEEDED);
    }
}
