//! `execve(2)`.

use std::ffi::{CStr, CString};
use std::io;
use std::ptr;

/// Replaces this program. Returns only if that fails, with the reason.
pub fn execve(program: &CStr, argv: &[CString], env: &[CString]) -> io::Error {
    let pointers = |strings: &[CString]| -> Vec<_> {
        strings
            .iter()
            .map(|s| s.as_ptr())
            .chain([ptr::null()])
            .collect()
    };
    let (argv, env) = (pointers(argv), pointers(env));
    // SAFETY: both arrays end in null, and their strings live until the call returns, if it does.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error()
}
