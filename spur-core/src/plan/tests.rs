mod choose;
mod devices;
mod learned;
mod limits;
mod queue;
mod random;
mod reserve;
mod times;
