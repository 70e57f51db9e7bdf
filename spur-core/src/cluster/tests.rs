mod life;
mod nodes;
mod random;
mod upgrade;
mod usage;
