//! The BPF programs, the layouts they share with user space, and the typed API that loads, pins and reads them.
