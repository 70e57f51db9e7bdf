//! Boots real kernels in QEMU and runs the built binaries on them.
