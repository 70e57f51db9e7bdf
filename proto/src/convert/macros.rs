//! Tables in, conversions out. Both directions take the other side apart field by field, so that a field which is added on one
//! side only does not build.

/// `From<&Core>` and `TryFrom<Message>` from [`super::Wire`], for users of this crate.
macro_rules! public {
    ($core:ty, $pb:ty) => {
        impl From<&$core> for $pb {
            fn from(value: &$core) -> Self {
                $crate::convert::Wire::to_pb(value)
            }
        }
        impl TryFrom<$pb> for $core {
            type Error = $crate::convert::BadMessage;
            fn try_from(pb: $pb) -> Result<Self, Self::Error> {
                <$core as $crate::convert::Wire>::from_pb(pb)
            }
        }
    };
}

/// One field, outward: `req` must be there, `def` is the default where an older peer left it out, `opt` may be absent, `rep` is a
/// list.
macro_rules! field_out {
    (req $value:expr) => {
        Some($crate::convert::Wire::to_pb($value))
    };
    (def $value:expr) => {
        Some($crate::convert::Wire::to_pb($value))
    };
    (opt $value:expr) => {
        $value.as_ref().map($crate::convert::Wire::to_pb)
    };
    (rep $value:expr) => {
        $value.iter().map($crate::convert::Wire::to_pb).collect()
    };
}

/// One field, inward.
macro_rules! field_in {
    (req $value:ident) => {
        $crate::convert::required($value, stringify!($value))?
    };
    (def $value:ident) => {
        $crate::convert::optional($value, stringify!($value))?.unwrap_or_default()
    };
    (opt $value:ident) => {
        $crate::convert::optional($value, stringify!($value))?
    };
    (rep $value:ident) => {
        $crate::convert::repeated($value, stringify!($value))?
    };
}

/// A struct and its message, with the same field names.
macro_rules! record {
    ($core:ident = $pb:ident { $($how:ident $field:ident),* $(,)? }) => {
        impl $crate::convert::Wire for $core {
            type Pb = $crate::wire::$pb;
            fn to_pb(&self) -> Self::Pb {
                let Self { $($field),* } = self;
                $crate::wire::$pb { $($field: field_out!($how $field)),* }
            }
            fn from_pb(pb: Self::Pb) -> Result<Self, $crate::convert::BadMessage> {
                let $crate::wire::$pb { $($field),* } = pb;
                Ok(Self { $($field: field_in!($how $field)),* })
            }
        }
        public!($core, $crate::wire::$pb);
    };
    // One with a part that others share, so that it may be read once for all of them, and something that does not travel.
    ($core:ident = $pb:ident { $($how:ident $field:ident),* $(,)? } with $part:ident: $whole:ty, by $given:ident, beside $stays:ident) => {
        impl $crate::convert::Wire for $core {
            type Pb = $crate::wire::$pb;
            fn to_pb(&self) -> Self::Pb {
                let Self { $($field,)* $part, $stays: _ } = self;
                let $part = field_out!(req $part);
                $crate::wire::$pb { $($field: field_out!($how $field),)* $part }
            }
            fn from_pb(mut pb: Self::Pb) -> Result<Self, $crate::convert::BadMessage> {
                let $part = pb.$part.take();
                $given(pb, field_in!(req $part))
            }
        }
        /// The message but for one part, which is given.
        pub(crate) fn $given(
            pb: $crate::wire::$pb,
            $part: $whole,
        ) -> Result<$core, $crate::convert::BadMessage> {
            let $crate::wire::$pb { $($field,)* $part: _ } = pb;
            Ok($core { $($field: field_in!($how $field),)* $part, $stays: Default::default() })
        }
        public!($core, $crate::wire::$pb);
    };
    // One with a list of nodes that it shares with others.
    ($core:ident = $pb:ident { $($how:ident $field:ident),* $(,)? } and $list:ident or $roll:ident) => {
        impl $crate::convert::Wire for $core {
            type Pb = $crate::wire::$pb;
            fn to_pb(&self) -> Self::Pb {
                let Self { $($field,)* $list } = self;
                let ($list, $roll) = $crate::convert::roll::write($list);
                $crate::wire::$pb { $($field: field_out!($how $field),)* $list, $roll }
            }
            fn from_pb(pb: Self::Pb) -> Result<Self, $crate::convert::BadMessage> {
                let $crate::wire::$pb { $($field,)* $list, $roll } = pb;
                let $list = $crate::convert::roll::read($list, $roll)?;
                Ok(Self { $($field: field_in!($how $field),)* $list })
            }
        }
        public!($core, $crate::wire::$pb);
    };
}

/// An enum without data. Zero and unknown numbers are errors.
macro_rules! choice {
    ($core:ident = $pb:ident { $($variant:ident),* $(,)? }) => {
        impl $crate::convert::Wire for $core {
            type Pb = i32;
            fn to_pb(&self) -> i32 {
                match self {
                    $(Self::$variant => $crate::wire::$pb::$variant as i32,)*
                }
            }
            fn from_pb(pb: i32) -> Result<Self, $crate::convert::BadMessage> {
                let unknown = || {
                    $crate::convert::BadMessage::new(format!("unknown {} {pb}", stringify!($core)))
                };
                match $crate::wire::$pb::try_from(pb).map_err(|_| unknown())? {
                    $($crate::wire::$pb::$variant => Ok(Self::$variant),)*
                    $crate::wire::$pb::Unspecified => Err(unknown()),
                }
            }
        }
    };
}

/// An enum with data, as a message that holds one of several. Variants come grouped: `unit` ones without data, `rec` ones with
/// fields, `one` ones that hold one value, `list` ones that hold a vector (in a message with the field `items`).
macro_rules! variants {
    ($core:ident = $pb:ident in $module:ident {
        $(unit $unit:ident;)*
        $(rec $rec:ident { $($how:ident $field:ident),* $(,)? };)*
        $(one $one:ident;)*
        $(list $list:ident;)*
    }) => {
        impl $crate::convert::Wire for $core {
            type Pb = $crate::wire::$pb;
            fn to_pb(&self) -> Self::Pb {
                use $crate::wire::$module::Kind;
                let kind = match self {
                    $(Self::$unit => Kind::$unit($crate::wire::Unit {}),)*
                    $(Self::$rec { $($field),* } => {
                        Kind::$rec($crate::wire::$module::$rec { $($field: field_out!($how $field)),* })
                    })*
                    $(Self::$one(value) => Kind::$one($crate::convert::Wire::to_pb(value)),)*
                    $(Self::$list(items) => Kind::$list($crate::wire::$module::$list { items: field_out!(rep items) }),)*
                };
                $crate::wire::$pb { kind: Some(kind) }
            }
            fn from_pb(pb: Self::Pb) -> Result<Self, $crate::convert::BadMessage> {
                use $crate::wire::$module::Kind;
                let kind = pb.kind.ok_or_else(|| {
                    $crate::convert::BadMessage::new(concat!("no known kind of ", stringify!($core)))
                })?;
                match kind {
                    $(Kind::$unit($crate::wire::Unit {}) => Ok(Self::$unit),)*
                    $(Kind::$rec($crate::wire::$module::$rec { $($field),* }) => (|| {
                        Ok(Self::$rec { $($field: field_in!($how $field)),* })
                    })(),)*
                    $(Kind::$one(value) => $crate::convert::Wire::from_pb(value).map(Self::$one),)*
                    $(Kind::$list($crate::wire::$module::$list { items }) => {
                        $crate::convert::repeated(items, "items").map(Self::$list)
                    })*
                }
                .map_err(|e: $crate::convert::BadMessage| e.at(stringify!($core)))
            }
        }
        public!($core, $crate::wire::$pb);
    };
}
