//! Why a job waits, as a pass says it.

use crate::cluster::Said;
use crate::job::state::Reason;
use std::borrow::Cow;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) reason: Reason,
    pub(super) text: Cow<'static, str>,
}

impl Wait {
    /// No more than the reason.
    pub(super) fn bare(reason: Reason) -> Self {
        Self {
            reason,
            text: Cow::Borrowed(""),
        }
    }

    /// As jobs of a bucket say it.
    pub(super) fn said(&self) -> Said {
        Said::of(self.reason, &self.text)
    }
}

impl From<(Reason, String)> for Wait {
    fn from((reason, text): (Reason, String)) -> Self {
        let text = text.into();
        Self { reason, text }
    }
}
