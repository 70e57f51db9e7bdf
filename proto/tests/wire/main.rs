//! The wire says what the core says, and says it for ever.

#[cfg(test)]
mod generate;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod replies;
#[cfg(test)]
mod round_trip;
