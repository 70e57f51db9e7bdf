mod choose;
mod devices;
mod queue;
mod random;
