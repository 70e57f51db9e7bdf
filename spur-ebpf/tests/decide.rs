//! The verdict of `bpf/fence_decide.h`, compiled for this host, against a naive model of the same rules.
