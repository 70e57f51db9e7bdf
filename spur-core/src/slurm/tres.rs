//! `--tres-per-task`: `cpu=4,gres/gpu:h200=1`. A count may follow `:` as well as `=`.

use super::gres::{self, BadGres};
use crate::resources::GpuCount;

/// What each task gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PerTask {
    /// CPUs.
    pub cpus: Option<u32>,
    /// GPUs.
    pub gpus: Option<GpuCount>,
}

/// A text that asks for something else.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTres {
    /// Neither CPUs nor GPUs.
    #[error("cpu=N and gres/gpu[:MODEL]=N can be asked for each task, not {0:?}")]
    Unknown(String),
    /// GPUs in no right form.
    #[error(transparent)]
    Gres(#[from] BadGres),
}

/// Reads the list; the empty text asks for nothing.
pub fn parse_per_task(text: &str) -> Result<PerTask, BadTres> {
    let mut found = PerTask::default();
    for element in text.split(',').filter(|element| !element.is_empty()) {
        let unknown = || BadTres::Unknown(element.to_owned());
        if let Some(gpus) = element
            .strip_prefix("gres/gpu")
            .or_else(|| element.strip_prefix("gres:gpu"))
        {
            let spec = gpus
                .strip_prefix([':', '='])
                .unwrap_or(gpus)
                .replace('=', ":");
            if gpus.is_empty() || spec.is_empty() || spec.len() == gpus.len() {
                return Err(unknown());
            }
            found.gpus = Some(gres::parse_gpus(&spec)?);
        } else if let Some(cpus) = element.strip_prefix("cpu") {
            let count = cpus.strip_prefix([':', '=']).and_then(|n| n.parse().ok());
            found.cpus = Some(count.filter(|n| *n > 0).ok_or_else(unknown)?);
        } else {
            return Err(unknown());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cpus_and_gpus_of_a_task() {
        let gpus = |model: &str, count| {
            let model = model.to_owned();
            Some(GpuCount { model, count })
        };
        for (text, cpus, wanted) in [
            ("", None, None),
            ("cpu=4", Some(4), None),
            ("cpu:4,gres/gpu:1", Some(4), gpus("", 1)),
            ("gres/gpu=2", None, gpus("", 2)),
            ("gres/gpu:h200=2", None, gpus("h200", 2)),
            ("gres/gpu:h200:2", None, gpus("h200", 2)),
            ("gres:gpu:2", None, gpus("", 2)),
        ] {
            let wanted = PerTask { cpus, gpus: wanted };
            assert_eq!(parse_per_task(text), Ok(wanted), "{text}");
        }
        for text in [
            "mem=4",
            "cpu",
            "cpu=0",
            "cpu=x",
            "gres/gpu",
            "gres/gpux=1",
            "gres/gpu=",
            "gres/tpu=1",
        ] {
            assert!(parse_per_task(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in "\\PC*", near in "(cpu|gres/gpu|h200|[=:,0-9]){0,8}") {
            let _parsed = (parse_per_task(&text), parse_per_task(&near));
        }
    }
}
