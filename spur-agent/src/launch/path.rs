//! A path in a step's folder: a text where it is one, so that any agent reads it, and bytes where it is none.

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserializer, Serializer};
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub(super) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    match path.to_str() {
        Some(text) => to.serialize_str(text),
        None => to.serialize_bytes(path.as_os_str().as_bytes()),
    }
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    from.deserialize_any(Either)
}

struct Either;

impl Visitor<'_> for Either {
    type Value = PathBuf;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a path")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<PathBuf, E> {
        self.visit_bytes(text.as_bytes())
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<PathBuf, E> {
        if bytes.contains(&0) {
            return Err(E::invalid_value(Unexpected::Bytes(bytes), &self));
        }
        Ok(OsStr::from_bytes(bytes).into())
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::path::PathBuf;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Kept {
        #[serde(with = "super")]
        path: PathBuf,
    }

    #[test]
    fn any_path_comes_back_as_it_was() {
        for name in [
            b"/tmp/z".as_slice(),
            b"/tmp/z\xff",
            b"",
            "/tmp/é\n".as_bytes(),
        ] {
            let kept = Kept {
                path: OsStr::from_bytes(name).into(),
            };
            let bytes = rmp_serde::to_vec_named(&kept).unwrap();
            assert_eq!(rmp_serde::from_slice::<Kept>(&bytes).unwrap(), kept);
        }
    }

    #[test]
    fn texts_are_written_as_ever() {
        #[derive(Serialize)]
        struct Older {
            path: &'static str,
        }
        let kept = Kept {
            path: "/tmp".into(),
        };
        let older = rmp_serde::to_vec_named(&Older { path: "/tmp" }).unwrap();
        assert_eq!(rmp_serde::to_vec_named(&kept).unwrap(), older);
    }
}
