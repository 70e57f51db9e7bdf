mod choose;
mod queue;
mod random;
