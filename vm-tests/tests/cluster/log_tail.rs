//! A controller's log, cut off anywhere.
