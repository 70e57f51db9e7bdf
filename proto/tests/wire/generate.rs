//! Makes values of any type that serde can read: a deserializer whose input is a seed. New fields and variants are covered the
//! moment they exist.

#![expect(
    clippy::unwrap_in_result,
    reason = "numbers are bounded before they are converted"
)]

use serde::de::{
    self, DeserializeSeed, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};

/// A value of `T`; the same one for the same seed. With `variant`, that one of the outermost enum (modulo their number).
pub(crate) fn value<'de, T: Deserialize<'de>>(seed: u64, variant: Option<usize>) -> T {
    T::deserialize(&mut Source {
        state: seed,
        variant,
    })
    .expect("every type here can be made")
}

/// The number of variants of the outermost enum.
pub(crate) fn variants<'de, T: Deserialize<'de>>() -> usize {
    struct Count(usize);
    impl<'de> de::Deserializer<'de> for &mut Count {
        type Error = de::value::Error;
        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
            Err(de::Error::custom("not an enum"))
        }
        fn deserialize_enum<V: Visitor<'de>>(
            self,
            _: &'static str,
            variants: &'static [&'static str],
            _: V,
        ) -> Result<V::Value, Self::Error> {
            self.0 = variants.len();
            Err(de::Error::custom("counted"))
        }
        forward_to_deserialize_any! {
            bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct
            newtype_struct seq tuple tuple_struct map struct identifier ignored_any
        }
    }
    let mut count = Count(0);
    assert!(T::deserialize(&mut count).is_err());
    count.0
}

struct Source {
    state: u64,
    variant: Option<usize>,
}

impl Source {
    /// `SplitMix64`.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Numbers of every magnitude, the greatest among them.
    fn number(&mut self, max: u64) -> u64 {
        match self.next() % 4 {
            0 => max,
            1 => self.next() % 3 % (max + u64::from(max < u64::MAX)).max(1),
            _ => {
                let shift = self.next() % 64;
                (self.next() >> shift) & max
            }
        }
    }
}

type Error = de::value::Error;

macro_rules! integers {
    ($($method:ident $visit:ident $int:ty),*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            visitor.$visit(<$int>::try_from(self.number(u64::from(<$int>::MAX))).expect("bounded"))
        }
    )*};
}

impl<'de> de::Deserializer<'de> for &mut Source {
    type Error = Error;
    integers!(deserialize_u8 visit_u8 u8, deserialize_u16 visit_u16 u16, deserialize_u32 visit_u32 u32);

    /// Never zero: a limit of no seconds and a set with a trailing empty word are not legal values.
    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_u64(self.number(u64::MAX).max(1))
    }
    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_i32(
            u32::try_from(self.number(u64::from(u32::MAX)))
                .expect("bounded")
                .cast_signed(),
        )
    }
    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(self.next().is_multiple_of(2))
    }
    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let bytes: Vec<u8> = (0..4).flat_map(|_| self.next().to_le_bytes()).collect();
        visitor.visit_bytes(&bytes)
    }
    /// Addresses are numbers then, and no text.
    fn is_human_readable(&self) -> bool {
        false
    }
    /// Always a legal node name, since names deserialize without a check.
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let number = self.next();
        visitor.visit_string(format!("n{:x}", number >> (number % 64)))
    }
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_string(visitor)
    }
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.next().is_multiple_of(3) {
            visitor.visit_none()
        } else {
            visitor.visit_some(self)
        }
    }
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let left = usize::try_from(self.next() % 4).expect("small");
        visitor.visit_seq(Items { source: self, left })
    }
    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        left: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_seq(Items { source: self, left })
    }
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let left = usize::try_from(self.next() % 4).expect("small");
        visitor.visit_map(Items { source: self, left })
    }
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_seq(Items {
            source: self,
            left: fields.len(),
        })
    }
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let any = usize::try_from(self.next() % 1024).expect("small");
        let variant = self.variant.take().unwrap_or(any) % variants.len();
        visitor.visit_enum(Chosen {
            source: self,
            variant: variants[variant],
        })
    }
    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(de::Error::custom(
            "a type that this generator does not know",
        ))
    }
    forward_to_deserialize_any! {
        i8 i16 i64 f32 f64 char byte_buf unit unit_struct tuple_struct identifier ignored_any
    }
}

struct Items<'a> {
    source: &'a mut Source,
    left: usize,
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Error;
    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        let Some(left) = self.left.checked_sub(1) else {
            return Ok(None);
        };
        self.left = left;
        seed.deserialize(&mut *self.source).map(Some)
    }
}

impl<'de> MapAccess<'de> for Items<'_> {
    type Error = Error;
    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        self.next_element_seed(seed)
    }
    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(&mut *self.source)
    }
}

struct Chosen<'a> {
    source: &'a mut Source,
    variant: &'static str,
}

impl<'de, 'a> EnumAccess<'de> for Chosen<'a> {
    type Error = Error;
    type Variant = Items<'a>;
    fn variant_seed<T: DeserializeSeed<'de>>(
        self,
        seed: T,
    ) -> Result<(T::Value, Items<'a>), Error> {
        let variant: de::value::StrDeserializer<'_, Error> = self.variant.into_deserializer();
        Ok((
            seed.deserialize(variant)?,
            Items {
                source: self.source,
                left: 0,
            },
        ))
    }
}

impl<'de> VariantAccess<'de> for Items<'_> {
    type Error = Error;
    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }
    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self.source)
    }
    fn tuple_variant<V: Visitor<'de>>(self, left: usize, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(Items { left, ..self })
    }
    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_seq(Items {
            left: fields.len(),
            ..self
        })
    }
}
