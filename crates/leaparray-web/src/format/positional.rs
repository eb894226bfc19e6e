//! Structures that are serialized as arrays, by the positions of their fields.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserializer, Error, IgnoredAny, SeqAccess, Visitor};
use serde::ser::{SerializeTuple, Serializer};

/// A structure that is serialized as the next elements of an array.
pub(super) trait Positional: Sized {
    /// The number of elements.
    const LEN: usize;

    /// Serializes the fields.
    fn write<S: SerializeTuple>(&self, to: &mut S) -> Result<(), S::Error>;

    /// Reads the fields. `read` is the number of elements that were read before, and is raised.
    fn read<'de, A: SeqAccess<'de>>(from: &mut A, read: &mut usize) -> Result<Self, A::Error>;
}

/// Reads the next element.
pub(super) fn next<'de, T, A>(from: &mut A, read: &mut usize, name: &str) -> Result<T, A::Error>
where
    T: serde::Deserialize<'de>,
    A: SeqAccess<'de>,
{
    let element = from.next_element()?;
    let index = *read;
    *read += 1;
    element.ok_or_else(|| {
        A::Error::custom(format_args!("the array ends before element {index}, `{name}`"))
    })
}

/// Serializes the fields as an array.
pub(super) fn serialize<T: Positional, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    let mut tuple = to.serialize_tuple(T::LEN)?;
    value.write(&mut tuple)?;
    tuple.end()
}

/// Reads the fields from an array, and ignores the elements after them.
pub(super) fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
where
    T: Positional,
    D: Deserializer<'de>,
{
    from.deserialize_seq(Fields(PhantomData))
}

struct Fields<T>(PhantomData<T>);

impl<'de, T: Positional> Visitor<'de> for Fields<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an array of at least {} elements", T::LEN)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<T, A::Error> {
        let value = T::read(&mut from, &mut 0)?;
        // A later version may have more elements.
        while from.next_element::<IgnoredAny>()?.is_some() {}
        Ok(value)
    }
}

/// Defines a structure that is serialized as an array of its fields. A reader ignores further
/// elements at the end of the array, so that a later version can append fields.
macro_rules! positional {
    ($(#[$meta:meta])* pub struct $name:ident {
        $($(#[$field_meta:meta])* pub $field:ident: $type:ty,)+
    }) => {
        $(#[$meta])*
        #[non_exhaustive]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)+
        }

        impl $crate::format::positional::Positional for $name {
            const LEN: usize = [$(stringify!($field)),+].len();

            fn write<S: serde::ser::SerializeTuple>(&self, to: &mut S) -> Result<(), S::Error> {
                $(to.serialize_element(&self.$field)?;)+
                Ok(())
            }

            fn read<'de, A: serde::de::SeqAccess<'de>>(
                from: &mut A,
                read: &mut usize,
            ) -> Result<Self, A::Error> {
                Ok(Self {
                    $($field: $crate::format::positional::next(from, read, stringify!($field))?,)+
                })
            }
        }

        $crate::format::positional::serde_as_array!($name);
    };
}

/// Implements serde's traits for a [`Positional`] structure.
macro_rules! serde_as_array {
    ($name:ty) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                $crate::format::positional::serialize(self, to)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                $crate::format::positional::deserialize(from)
            }
        }
    };
}

pub(super) use positional;
pub(super) use serde_as_array;
