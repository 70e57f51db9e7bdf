//! Slurm's grammars: each parses and displays, and the two are inverse.
