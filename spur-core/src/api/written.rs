//! What a row is on the wire, kept with the row: it is written by the first who asks for it, and sent to all who do, until another row
//! takes its place.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// See the module. A row that is made to be shown once keeps nothing; nor does a copy, which may be changed. Takes no part in what a row
/// says: all are equal.
#[derive(Default)]
pub struct Written(Option<Arc<OnceLock<Box<[u8]>>>>);

impl Written {
    /// Of a row that is shown often.
    pub fn kept() -> Self {
        Self(Some(Arc::default()))
    }

    /// Of a copy that says the same, apart from what is not part of the bytes.
    #[must_use]
    pub fn shared(&self) -> Self {
        Self(self.0.clone())
    }

    /// The bytes, which `write` makes if there are none.
    pub fn bytes(&self, write: impl FnOnce() -> Vec<u8>) -> Cow<'_, [u8]> {
        match &self.0 {
            None => Cow::Owned(write()),
            Some(kept) => Cow::Borrowed(kept.get_or_init(|| write().into_boxed_slice())),
        }
    }
}

impl Clone for Written {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl fmt::Debug for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Written")
    }
}

impl PartialEq for Written {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Written {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_made_once_and_copies_that_may_change_have_none() {
        let written = Written::kept();
        assert_eq!(*written.bytes(|| vec![1]), [1]);
        assert_eq!(*written.bytes(|| unreachable!("kept")), [1]);
        assert_eq!(*written.shared().bytes(|| unreachable!("kept")), [1]);
        assert_eq!(*written.clone().bytes(|| vec![2]), [2]);
        let once = Written::default();
        assert_eq!(*once.bytes(|| vec![3]), [3]);
        assert_eq!(*once.bytes(|| vec![4]), [4]);
    }
}
