mod arrays;
mod het;
mod life;
mod nodes;
mod random;
mod rest;
mod upgrade;
mod usage;
