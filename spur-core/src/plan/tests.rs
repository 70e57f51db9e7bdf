mod choose;
mod devices;
mod learned;
mod queue;
mod random;
mod reserve;
