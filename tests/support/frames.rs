//! Frames of HTTP/2, made by hand: for clients that no library would be.

use bytes::{BufMut, BytesMut};

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const ACK: u8 = 1;

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> BytesMut {
    let mut frame = BytesMut::new();
    frame.put_uint(payload.len() as u64, 3);
    frame.put_u8(kind);
    frame.put_u8(flags);
    frame.put_u32(stream);
    frame.put_slice(payload);
    frame
}

/// HPACK: literal fields that are not indexed.
pub(crate) fn fields(fields: &[(&str, &str)]) -> BytesMut {
    let mut block = BytesMut::new();
    for (name, value) in fields {
        block.put_u8(0);
        for text in [name, value] {
            block.put_u8(u8::try_from(text.len()).unwrap());
            block.put_slice(text.as_bytes());
        }
    }
    block
}
