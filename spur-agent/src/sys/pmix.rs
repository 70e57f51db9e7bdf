//! A PMIx server by OpenPMIx's library (Debian's `libpmix2`), which is looked for when one is started: neither building this program
//! nor running it needs the library otherwise.
//!
//! The functions are those of OpenPMIx's `include/pmix_server.h`; [`abi`] has the structures. The library has threads of its own and
//! calls back from them, so a process that has started a server is not to fork.

mod abi;
mod callbacks;

pub use abi::Fact;
pub use callbacks::{Host, Waiting};

use abi::{Info, Infos, ModexTold, Module, OPERATION_SUCCEEDED, OpDone, Proc};
use spur_core::pmix::status;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{self, NonNull};

/// The library, by the name under which all its versions since 3 are found.
const LIBRARY: &CStr = c"libpmix.so.2";

/// Major versions whose structures are as [`abi`] has them.
const KNOWN: std::ops::RangeInclusive<u32> = 4..=6;

/// Why there is no server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PmixError {
    /// There is no library.
    #[error(
        "could not load PMIx's library {name}: {why}: install OpenPMIx there (Debian's package libpmix2), or use another --mpi"
    )]
    Missing {
        /// Its name.
        name: String,
        /// What the loader says.
        why: String,
    },
    /// It is not what it should be.
    #[error("PMIx's library lacks {0}")]
    Lacks(String),
    /// It is of a version whose structures are not known here.
    #[error(
        "PMIx's library is of version {0}, of which nothing is known here: versions 4 to 6 are"
    )]
    Unknown(String),
    /// Another version was asked for.
    #[error("PMIx's library is of version {found}, and --mpi=pmix_v{wanted} asks for another")]
    Other {
        /// What it is.
        found: String,
        /// What was asked for.
        wanted: u32,
    },
    /// One of its functions failed.
    #[error("PMIx's {what} failed: {why}")]
    Failed {
        /// Which.
        what: &'static str,
        /// What it says.
        why: String,
    },
}

type Generate = unsafe extern "C" fn(*const c_char, *mut *mut c_char) -> c_int;

/// The library's functions.
#[derive(Clone, Copy)]
struct Functions {
    server_init: unsafe extern "C" fn(*mut Module, *mut Info, usize) -> c_int,
    generate_regex: Generate,
    generate_ppn: Generate,
    register_nspace: unsafe extern "C" fn(
        *const c_char,
        c_int,
        *mut Info,
        usize,
        Option<OpDone>,
        *mut c_void,
    ) -> c_int,
    register_client: unsafe extern "C" fn(
        *const Proc,
        libc::uid_t,
        libc::gid_t,
        *mut c_void,
        Option<OpDone>,
        *mut c_void,
    ) -> c_int,
    setup_fork: unsafe extern "C" fn(*const Proc, *mut *mut *mut c_char) -> c_int,
    server_finalize: unsafe extern "C" fn() -> c_int,
    dmodex_request: unsafe extern "C" fn(*const Proc, ModexTold, *mut c_void) -> c_int,
    error_string: unsafe extern "C" fn(c_int) -> *const c_char,
}

/// The library.
pub struct Library {
    functions: Functions,
    /// As it says itself: `4.2.2`.
    version: String,
}

impl Library {
    /// Loads it.
    ///
    /// # Errors
    /// It is not there, or is of a version that is not known, or not the one that is `wanted` (0: any).
    pub fn load(wanted: u32) -> Result<Self, PmixError> {
        Self::load_from(LIBRARY, wanted)
    }

    fn load_from(name: &CStr, wanted: u32) -> Result<Self, PmixError> {
        // SAFETY: the name ends in zero. What is loaded is trusted as far as this process is: it runs with a user's rights.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        let Some(handle) = NonNull::new(handle) else {
            let name = name.to_string_lossy().into_owned();
            // SAFETY: gives a text that ends in zero, or null.
            let why = text(unsafe { libc::dlerror() });
            let own = format!("{name}: ");
            let why = why.strip_prefix(&own).unwrap_or(&why).to_owned();
            return Err(PmixError::Missing { name, why });
        };
        let version = version(handle)?;
        let major = version
            .split('.')
            .next()
            .and_then(|major| major.parse().ok());
        match major {
            Some(major) if !KNOWN.contains(&major) => return Err(PmixError::Unknown(version)),
            Some(major) if wanted != 0 && wanted != major => {
                let found = version;
                return Err(PmixError::Other { found, wanted });
            }
            Some(_) => {}
            None => return Err(PmixError::Unknown(version)),
        }
        // SAFETY: the versions that are known have these functions with these types.
        let functions = unsafe {
            Functions {
                server_init: function(handle, c"PMIx_server_init")?,
                generate_regex: function(handle, c"PMIx_generate_regex")?,
                generate_ppn: function(handle, c"PMIx_generate_ppn")?,
                register_nspace: function(handle, c"PMIx_server_register_nspace")?,
                register_client: function(handle, c"PMIx_server_register_client")?,
                setup_fork: function(handle, c"PMIx_server_setup_fork")?,
                server_finalize: function(handle, c"PMIx_server_finalize")?,
                dmodex_request: function(handle, c"PMIx_server_dmodex_request")?,
                error_string: function(handle, c"PMIx_Error_string")?,
            }
        };
        Ok(Self { functions, version })
    }

    /// Its version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Starts the server, the only one that a process has. `facts` are attributes of the server, `namespace` is the name of the step
    /// whose processes it is for.
    ///
    /// # Errors
    /// The library fails, or a server was started already.
    pub fn serve(
        self,
        namespace: &str,
        facts: &[(&'static str, Fact)],
        host: Box<dyn Host>,
    ) -> Result<Server, PmixError> {
        let server = Server {
            functions: self.functions,
            namespace: namespace.to_owned(),
        };
        if !callbacks::install(namespace, host) {
            return Err(PmixError::Failed {
                what: "PMIx_server_init",
                why: "this process has a server already".into(),
            });
        }
        // The library may look at these for as long as it likes.
        let module = Box::leak(Box::new(callbacks::MODULE));
        let (infos, count) = Box::leak(Box::new(Infos::new(facts))).parts();
        // SAFETY: the module and the attributes are as the library has them, and live for ever.
        let done = unsafe { (self.functions.server_init)(module, infos, count) };
        server.check("PMIx_server_init", done)?;
        Ok(server)
    }
}

/// The version in `PMIx_Get_version`'s text, `OpenPMIx 4.2.2rc2 (PMIx Standard: …)` or `OpenPMIx 5.0.1, repo rev: …`.
fn version(handle: NonNull<c_void>) -> Result<String, PmixError> {
    // SAFETY: the function has this type in every version.
    let get: unsafe extern "C" fn() -> *const c_char =
        unsafe { function(handle, c"PMIx_Get_version")? };
    // SAFETY: gives a text of the library's own, which lives as long as that.
    Ok(number_of(&text(unsafe { get() })).to_owned())
}

fn number_of(text: &str) -> &str {
    let number = text
        .split([' ', ','])
        .find(|word| word.starts_with(|first: char| first.is_ascii_digit()) && word.contains('.'));
    let number = number.unwrap_or(text);
    let numeric = |c: char| c.is_ascii_digit() || c == '.';
    let end = number.find(|c| !numeric(c)).unwrap_or(number.len());
    if end == 0 { number } else { &number[..end] }
}

/// A function of the library.
///
/// # Safety
/// `T` is the type of a pointer to that function.
unsafe fn function<T: Copy>(handle: NonNull<c_void>, name: &CStr) -> Result<T, PmixError> {
    const { assert!(size_of::<T>() == size_of::<*mut c_void>()) };
    // SAFETY: the handle is that of a library that is never unloaded; the name ends in zero.
    let found = unsafe { libc::dlsym(handle.as_ptr(), name.as_ptr()) };
    if found.is_null() {
        return Err(PmixError::Lacks(name.to_string_lossy().into_owned()));
    }
    // SAFETY: as large as a pointer, as was just seen, and of that type by the caller's word.
    Ok(unsafe { std::mem::transmute_copy(&found) })
}

/// A text of C's; empty for null.
fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: callers give texts that end in zero.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

fn c_string(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default()
}

/// A running server.
pub struct Server {
    functions: Functions,
    namespace: String,
}

impl Server {
    fn check(&self, what: &'static str, done: c_int) -> Result<(), PmixError> {
        if done == status::SUCCESS || done == OPERATION_SUCCEEDED {
            return Ok(());
        }
        // SAFETY: gives a text of the library's own for every number.
        let why = text(unsafe { (self.functions.error_string)(done) });
        Err(PmixError::Failed {
            what,
            why: format!("{why} ({done})"),
        })
    }

    /// Names as the library writes lists of them.
    ///
    /// # Errors
    /// The library fails.
    pub fn names(&self, names: &str) -> Result<String, PmixError> {
        self.generate("PMIx_generate_regex", self.functions.generate_regex, names)
    }

    /// Ranks by node as the library writes them.
    ///
    /// # Errors
    /// The library fails.
    pub fn ranks(&self, ranks: &str) -> Result<String, PmixError> {
        self.generate("PMIx_generate_ppn", self.functions.generate_ppn, ranks)
    }

    fn generate(
        &self,
        what: &'static str,
        generate: Generate,
        list: &str,
    ) -> Result<String, PmixError> {
        let input = c_string(list);
        let mut output = ptr::null_mut();
        // SAFETY: the input ends in zero; the output is a place for a pointer.
        let done = unsafe { generate(input.as_ptr(), &raw mut output) };
        self.check(what, done)?;
        let written = text(output);
        // SAFETY: what the library made by malloc(3) is the caller's to free.
        unsafe { libc::free(output.cast()) };
        // A long list is compressed, with zeroes in it. The library reads lists that are not as well, by this name.
        Ok(
            if written.starts_with("pmix:") || written.starts_with("raw:") {
                written
            } else {
                format!("raw:{list}")
            },
        )
    }

    /// Says what the step is, of which so many tasks run here.
    ///
    /// # Errors
    /// The library fails.
    pub fn describe(&self, local: usize, facts: &[(&'static str, Fact)]) -> Result<(), PmixError> {
        let name = c_string(&self.namespace);
        let local = c_int::try_from(local).unwrap_or(c_int::MAX);
        let (infos, count) = Box::leak(Box::new(Infos::new(facts))).parts();
        // SAFETY: the name ends in zero; the facts are as the library has them, and live for ever. Without a callback it returns
        // when it is done.
        let done = unsafe {
            (self.functions.register_nspace)(
                name.as_ptr(),
                local,
                infos,
                count,
                None,
                ptr::null_mut(),
            )
        };
        self.check("PMIx_server_register_nspace", done)
    }

    /// Lets a rank in, which runs here as this user. Gives what is to be in its environment.
    ///
    /// # Errors
    /// The library fails.
    pub fn admit(&self, rank: u32, uid: u32, gid: u32) -> Result<Vec<Vec<u8>>, PmixError> {
        let proc = Proc::new(&self.namespace, rank);
        // SAFETY: the process is as the library has it; without a callback it returns when it is done, and keeps no pointer.
        let done = unsafe {
            (self.functions.register_client)(
                &raw const proc,
                uid,
                gid,
                ptr::null_mut(),
                None,
                ptr::null_mut(),
            )
        };
        self.check("PMIx_server_register_client", done)?;
        let mut env = ptr::null_mut();
        // SAFETY: the process is as the library has it; an environment that is null is made.
        let done = unsafe { (self.functions.setup_fork)(&raw const proc, &raw mut env) };
        self.check("PMIx_server_setup_fork", done)?;
        // SAFETY: it was just made by the library, for the caller.
        Ok(unsafe { take_environment(env) })
    }

    /// Ends the server; what processes have left to be removed is removed.
    ///
    /// # Errors
    /// The library fails.
    pub fn end(self) -> Result<(), PmixError> {
        // SAFETY: it runs, and is not used afterwards.
        let done = unsafe { (self.functions.server_finalize)() };
        self.check("PMIx_server_finalize", done)
    }

    /// Asks for what a rank that runs here has put; the answer comes by [`Host::told`].
    pub fn ask(&self, rank: u32, id: u32) {
        let proc = Proc::new(&self.namespace, rank);
        let mark = ptr::without_provenance_mut(id as usize);
        // SAFETY: the process is as the library has it, and copied; the mark is a number, and only given back.
        let done =
            unsafe { (self.functions.dmodex_request)(&raw const proc, callbacks::told, mark) };
        if done != status::SUCCESS {
            callbacks::tell(id, done, &[]);
        }
    }
}

/// Takes over an array of texts that ends in null.
///
/// # Safety
/// The array and its texts were made by malloc(3), and are nobody else's.
unsafe fn take_environment(env: *mut *mut c_char) -> Vec<Vec<u8>> {
    let mut entries = Vec::new();
    if env.is_null() {
        return entries;
    }
    let mut at = env;
    // SAFETY: the array ends in null, and is not left before that.
    while let Some(entry) = NonNull::new(unsafe { *at }) {
        // SAFETY: each is a text that ends in zero.
        entries.push(
            unsafe { CStr::from_ptr(entry.as_ptr()) }
                .to_bytes()
                .to_vec(),
        );
        // SAFETY: by the caller's word; it is not looked at again.
        unsafe { libc::free(entry.as_ptr().cast()) };
        // SAFETY: still within the array, since this one was not its end.
        at = unsafe { at.add(1) };
    }
    // SAFETY: by the caller's word.
    unsafe { libc::free(env.cast()) };
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_out_of_what_the_library_says() {
        for (said, version) in [
            (
                "OpenPMIx 4.2.2rc2 (PMIx Standard: 4.2, Stable ABI: 0.0)",
                "4.2.2",
            ),
            ("OpenPMIx 5.0.1, repo rev: gitabc, PACKAGE: x", "5.0.1"),
            ("OpenPMIx 3.1.5", "3.1.5"),
            ("nonsense", "nonsense"),
        ] {
            assert_eq!(number_of(said), version);
        }
    }

    #[test]
    fn a_library_that_is_not_there_is_named_with_its_package() {
        let missing = Library::load_from(c"libpmix-of-nowhere.so.2", 0);
        let error = missing.err().expect("there is none").to_string();
        assert!(
            error.contains("libpmix-of-nowhere.so.2: cannot open shared object file")
                && error.contains("libpmix2"),
            "{error}"
        );
    }

    #[test]
    fn another_library_is_refused() {
        let other = Library::load_from(c"libm.so.6", 0);
        assert_eq!(
            other.err(),
            Some(PmixError::Lacks("PMIx_Get_version".into()))
        );
    }

    #[test]
    fn another_version_than_the_one_asked_for_is_refused() {
        match Library::load(0) {
            Ok(library) => {
                let found = library.version().to_owned();
                let wanted = if found.starts_with("5.") { 4 } else { 5 };
                assert_eq!(
                    Library::load(wanted).err(),
                    Some(PmixError::Other { found, wanted })
                );
            }
            Err(PmixError::Missing { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
}
