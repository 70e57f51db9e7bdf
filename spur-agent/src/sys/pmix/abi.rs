//! OpenPMIx's structures as the library `libpmix.so.2` has them, from version 4.0 to 6.0 alike.
//!
//! Written down in OpenPMIx's `include/pmix_common.h` (`pmix_proc_t`, `pmix_value_t`, `pmix_info_t`, `pmix_data_array_t`, the numbers
//! of data types, attributes' names) and `include/pmix_server.h` (`pmix_server_module_t`, the callbacks' types), compared at the tags
//! v4.0.0, v4.2.2, v5.0.9 and v6.0.0.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;

/// `PMIX_MAX_NSLEN` and its end.
pub(super) const NAMESPACE: usize = 256;
/// `PMIX_MAX_KEYLEN` and its end.
const KEY: usize = 512;
/// `PMIX_RANK_WILDCARD`: every rank of a namespace.
pub(super) const WILDCARD: u32 = u32::MAX - 1;

/// Numbers of data types.
const BOOL: u16 = 1;
const STRING: u16 = 3;
const UINT16: u16 = 13;
const UINT32: u16 = 14;
const INFO: u16 = 24;
const DATA_ARRAY: u16 = 39;
const PROC_RANK: u16 = 40;

/// Statuses: what is done when the call returns, and needs no callback.
pub(super) const OPERATION_SUCCEEDED: i32 = -157;

/// `pmix_proc_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Proc {
    pub(super) nspace: [c_char; NAMESPACE],
    pub(super) rank: u32,
}

impl Proc {
    pub(super) fn new(nspace: &str, rank: u32) -> Self {
        let mut this = Self {
            nspace: [0; NAMESPACE],
            rank,
        };
        copy(&mut this.nspace, nspace);
        this
    }

    /// Whether it is of this namespace. What follows the name's end is whatever it was.
    pub(super) fn is_of(&self, nspace: &str) -> bool {
        let name = |of: &Self| {
            of.nspace
                .iter()
                .position(|byte| *byte == 0)
                .map(|end| of.nspace[..end].to_vec())
        };
        name(self) == name(&Self::new(nspace, 0))
    }
}

/// Copies text into a field that ends in zero; what is too long is cut.
fn copy(to: &mut [c_char], text: &str) {
    let room = to.len().saturating_sub(1);
    for (to, byte) in to.iter_mut().take(room).zip(text.bytes()) {
        *to = byte.cast_signed();
    }
}

/// The union in `pmix_value_t`; its largest member is `pmix_envar_t`, of 24 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
union Data {
    flag: bool,
    string: *mut c_char,
    uint16: u16,
    uint32: u32,
    darray: *mut DataArray,
    whole: [u64; 3],
}

/// `pmix_value_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Value {
    kind: u16,
    data: Data,
}

/// `pmix_info_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Info {
    key: [c_char; KEY],
    flags: u32,
    value: Value,
}

/// `pmix_data_array_t`.
#[repr(C)]
struct DataArray {
    kind: u16,
    size: usize,
    array: *mut c_void,
}

/// What is said under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// `PMIX_BOOL`.
    Flag(bool),
    /// `PMIX_STRING`.
    Text(String),
    /// `PMIX_UINT16`.
    Short(u16),
    /// `PMIX_UINT32`.
    Number(u32),
    /// `PMIX_PROC_RANK`.
    Rank(u32),
    /// `PMIX_DATA_ARRAY` of `PMIX_INFO`.
    Facts(Vec<(&'static str, Self)>),
}

/// Facts as the library takes them, and all that they point to.
pub(super) struct Infos {
    infos: Vec<Info>,
    texts: Vec<CString>,
    inner: Vec<(Box<DataArray>, Self)>,
}

impl Infos {
    /// Text with a zero in it is cut there.
    pub(super) fn new(facts: &[(&'static str, Fact)]) -> Self {
        let mut this = Self {
            infos: Vec::with_capacity(facts.len()),
            texts: Vec::new(),
            inner: Vec::new(),
        };
        for (key, fact) in facts {
            let value = this.value(fact);
            let mut info = Info {
                key: [0; KEY],
                flags: 0,
                value,
            };
            copy(&mut info.key, key);
            this.infos.push(info);
        }
        this
    }

    fn value(&mut self, fact: &Fact) -> Value {
        // The rest of the union is zero, as by the library's own macros.
        let mut data = Data { whole: [0; 3] };
        let kind = match fact {
            Fact::Flag(flag) => {
                data.flag = *flag;
                BOOL
            }
            Fact::Text(text) => {
                let until = text.split('\0').next().unwrap_or_default();
                let text = CString::new(until).unwrap_or_default();
                data.string = text.as_ptr().cast_mut();
                self.texts.push(text);
                STRING
            }
            Fact::Short(number) => {
                data.uint16 = *number;
                UINT16
            }
            Fact::Number(number) => {
                data.uint32 = *number;
                UINT32
            }
            Fact::Rank(rank) => {
                data.uint32 = *rank;
                PROC_RANK
            }
            Fact::Facts(facts) => {
                let mut inner = Self::new(facts);
                let (array, size) = inner.parts();
                let mut array = Box::new(DataArray {
                    kind: INFO,
                    size,
                    array: array.cast(),
                });
                data.darray = &raw mut *array;
                self.inner.push((array, inner));
                DATA_ARRAY
            }
        };
        Value { kind, data }
    }

    /// Where they are, and how many. They must live as long as the library looks at them.
    pub(super) fn parts(&mut self) -> (*mut Info, usize) {
        match self.infos.len() {
            0 => (ptr::null_mut(), 0),
            count => (self.infos.as_mut_ptr(), count),
        }
    }
}

/// `pmix_op_cbfunc_t`.
pub(super) type OpDone = unsafe extern "C" fn(c_int, *mut c_void);
/// `pmix_release_cbfunc_t`.
pub(super) type Release = unsafe extern "C" fn(*mut c_void);
/// `pmix_modex_cbfunc_t`.
pub(super) type ModexDone =
    unsafe extern "C" fn(c_int, *const c_char, usize, *mut c_void, Option<Release>, *mut c_void);
/// `pmix_dmodex_response_fn_t`.
pub(super) type ModexTold = unsafe extern "C" fn(c_int, *mut c_char, usize, *mut c_void);

/// `pmix_server_client_connected_fn_t` and `pmix_server_client_finalized_fn_t`.
pub(super) type ClientFn =
    unsafe extern "C" fn(*const Proc, *mut c_void, Option<OpDone>, *mut c_void) -> c_int;
/// `pmix_server_abort_fn_t`.
pub(super) type AbortFn = unsafe extern "C" fn(
    *const Proc,
    *mut c_void,
    c_int,
    *const c_char,
    *mut Proc,
    usize,
    Option<OpDone>,
    *mut c_void,
) -> c_int;
/// `pmix_server_fencenb_fn_t`.
pub(super) type FenceFn = unsafe extern "C" fn(
    *const Proc,
    usize,
    *const Info,
    usize,
    *mut c_char,
    usize,
    Option<ModexDone>,
    *mut c_void,
) -> c_int;
/// `pmix_server_dmodex_req_fn_t`.
pub(super) type ModexFn =
    unsafe extern "C" fn(*const Proc, *const Info, usize, Option<ModexDone>, *mut c_void) -> c_int;
/// `pmix_server_connect_fn_t` and `pmix_server_disconnect_fn_t`.
pub(super) type ConnectFn = unsafe extern "C" fn(
    *const Proc,
    usize,
    *const Info,
    usize,
    Option<OpDone>,
    *mut c_void,
) -> c_int;

/// `pmix_server_job_control_fn_t`; who calls back is not looked at.
pub(super) type ControlFn = unsafe extern "C" fn(
    *const Proc,
    *const Proc,
    usize,
    *const Info,
    usize,
    *mut c_void,
    *mut c_void,
) -> c_int;

/// Functions of `pmix_server_module_t` that are not there: the library refuses to its clients what they ask of those. Later versions
/// have added some at the end, and copy as much as they know: there is room for more than any has.
const ABSENT: usize = 64;

/// `pmix_server_module_t`.
#[repr(C)]
pub(super) struct Module {
    pub(super) client_connected: Option<ClientFn>,
    pub(super) client_finalized: Option<ClientFn>,
    pub(super) abort: Option<AbortFn>,
    pub(super) fence_nb: Option<FenceFn>,
    pub(super) direct_modex: Option<ModexFn>,
    /// `publish`, `lookup`, `unpublish`, `spawn`.
    pub(super) names_and_spawn: [usize; 4],
    pub(super) connect: Option<ConnectFn>,
    pub(super) disconnect: Option<ConnectFn>,
    /// From `register_events` to `allocate`.
    pub(super) events_to_allocate: [usize; 8],
    pub(super) job_control: Option<ControlFn>,
    /// From `monitor` on.
    pub(super) others: [usize; ABSENT],
}

impl Module {
    pub(super) const NOTHING: Self = Self {
        client_connected: None,
        client_finalized: None,
        abort: None,
        fence_nb: None,
        direct_modex: None,
        names_and_spawn: [0; 4],
        connect: None,
        disconnect: None,
        events_to_allocate: [0; 8],
        job_control: None,
        others: [0; ABSENT],
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;
    use std::mem::offset_of;

    /// As a C compiler says with the library's headers.
    #[test]
    fn structures_are_as_large_as_the_librarys() {
        assert_eq!(
            [
                size_of::<Proc>(),
                size_of::<Value>(),
                offset_of!(Value, data),
                size_of::<Info>(),
                offset_of!(Info, flags),
                offset_of!(Info, value),
                size_of::<DataArray>(),
            ],
            [260, 32, 8, 552, 512, 520, 24]
        );
        // 28 functions in version 4, of which these are the tenth and the twentieth.
        assert_eq!(offset_of!(Module, connect), 9 * 8);
        assert_eq!(offset_of!(Module, job_control), 19 * 8);
        assert!(size_of::<Module>() >= 32 * 8);
    }

    #[test]
    fn facts_are_found_where_they_are_pointed_to() {
        let inner = vec![("pmix.rank", Fact::Rank(7)), ("b", Fact::Short(3))];
        let mut infos = Infos::new(&[
            ("a", Fact::Text("one".into())),
            ("c", Fact::Facts(inner)),
            ("d", Fact::Flag(true)),
            ("e", Fact::Text("cut\0off".into())),
        ]);
        let (_, count) = infos.parts();
        assert_eq!(count, 4);
        let kinds: Vec<u16> = infos.infos.iter().map(|info| info.value.kind).collect();
        assert_eq!(kinds, [STRING, DATA_ARRAY, BOOL, STRING]);
        let text = |info: &Info| {
            // SAFETY: it is a text, as its kind says, which `infos` owns.
            let text = unsafe { CStr::from_ptr(info.value.data.string) };
            text.to_str().expect("it is text").to_owned()
        };
        assert_eq!(text(&infos.infos[0]), "one");
        assert_eq!(text(&infos.infos[3]), "cut");
        // SAFETY: it is an array, as its kind says, which `infos` owns.
        let array = unsafe { &*infos.infos[1].value.data.darray };
        assert_eq!((array.kind, array.size), (INFO, 2));
        // SAFETY: the array has two of these, which `infos` owns.
        let first = unsafe { &*array.array.cast::<Info>() };
        // SAFETY: it is a number, as its kind says.
        let number = unsafe { first.value.data.uint32 };
        assert_eq!((first.value.kind, number), (PROC_RANK, 7));
    }

    #[test]
    fn a_name_that_is_too_long_still_ends() {
        let long = "x".repeat(1000);
        let of = Proc::new(&long, 1);
        assert_eq!(of.nspace[NAMESPACE - 1], 0);
        assert!(of.is_of(&long) && !of.is_of("x"));
    }

    #[test]
    fn what_follows_a_name_does_not_count() {
        let mut of = Proc::new("spur.7.0", 1);
        of.nspace[9..].fill(7);
        assert!(of.is_of("spur.7.0") && !of.is_of("spur.7") && !of.is_of("spur.7.01"));
        of.nspace.fill(7);
        assert!(!of.is_of("spur.7.0"), "a name without an end is nobody's");
    }
}
