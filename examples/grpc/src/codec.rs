//! A codec of numbers, in place of Protocol Buffers.

use bytes::{Buf, BufMut};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// A message is a number of eight bytes, the most significant one first.
#[derive(Default)]
pub(crate) struct Number;

impl Codec for Number {
    type Encode = u64;
    type Decode = u64;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Number {
    type Item = u64;
    type Error = Status;

    fn encode(&mut self, number: u64, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put_u64(number);
        Ok(())
    }
}

impl Decoder for Number {
    type Item = u64;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<u64>, Status> {
        let number = from.try_get_u64().map_err(|error| Status::internal(error.to_string()))?;
        Ok(Some(number))
    }
}
