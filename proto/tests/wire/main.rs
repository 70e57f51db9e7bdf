//! The wire says what the core says, and says it for ever.

mod generate;
mod golden;
mod round_trip;
