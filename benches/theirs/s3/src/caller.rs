//! Callers of S3 over HTTP/1.1, by hand: so that they can read slowly, and hang up in the middle of a body.

use std::{io, net::SocketAddr, time::Duration};

use load::Outcome;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::sleep,
};

pub(crate) const MIB: u64 = 1_024 * 1_024;
/// What is read or written at once.
const PIECE: usize = 64 * 1_024;
/// A slow reader takes a piece as often as this: 4 MiB/s.
const PAUSE: Duration = Duration::from_micros(15_625);

/// How a caller behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    Ordinary,
    /// Takes its time with an answer.
    Slow,
    /// Hangs up in the middle of a body.
    Rude,
}

/// Asks for an object, and reads it.
pub(crate) async fn get(address: SocketAddr, object: &str, manner: Manner) -> io::Result<Outcome> {
    let socket = TcpSocket::new_v4()?;
    if manner == Manner::Slow {
        // Else the system takes all of the body at once, and the server has a fast reader.
        socket.set_recv_buffer_size(128 * 1_024)?;
    }
    let mut caller = Caller { stream: socket.connect(address).await?, read: Vec::new() };
    let head = format!("GET /bucket/{object} HTTP/1.1\r\nhost: s3\r\nconnection: close\r\n\r\n");
    caller.stream.write_all(head.as_bytes()).await?;
    let (status, length) = caller.head().await?;
    if status != 200 {
        return Ok(refused(status));
    }
    let (mut left, mut piece) = (length.saturating_sub(caller.read.len() as u64), vec![0; PIECE]);
    while left > 0 && !(manner == Manner::Rude && left < length / 2) {
        match caller.stream.read(&mut piece).await? {
            0 => return Ok(Outcome::Failed),
            read => left = left.saturating_sub(read as u64),
        }
        if manner == Manner::Slow {
            sleep(PAUSE).await;
        }
    }
    Ok(Outcome::InTime((length - left) / 1_024))
}

/// Sends an object of so many bytes, once the server has said that it wants it.
pub(crate) async fn put(address: SocketAddr, object: &str, length: u64, manner: Manner) -> io::Result<Outcome> {
    let mut caller = Caller { stream: TcpStream::connect(address).await?, read: Vec::new() };
    let head = format!(
        "PUT /bucket/{object} HTTP/1.1\r\nhost: s3\r\nconnection: close\r\ncontent-length: {length}\r\n\
         expect: 100-continue\r\n\r\n"
    );
    caller.stream.write_all(head.as_bytes()).await?;
    let (status, _) = caller.head().await?;
    if status != 100 {
        return Ok(refused(status));
    }
    let piece = [7; PIECE];
    for at in 0..length / PIECE as u64 {
        if manner == Manner::Rude && at * PIECE as u64 >= length / 2 {
            return Ok(Outcome::Failed);
        }
        caller.stream.write_all(&piece).await?;
    }
    let (status, _) = caller.head().await?;
    Ok(if status == 200 { Outcome::InTime(length / 1_024) } else { Outcome::Failed })
}

const fn refused(status: u16) -> Outcome {
    if status == 503 { Outcome::Refused } else { Outcome::Failed }
}

struct Caller {
    stream: TcpStream,
    /// What came after the last head.
    read: Vec<u8>,
}

impl Caller {
    /// Reads the next head: its status, and the length of its body.
    async fn head(&mut self) -> io::Result<(u16, u64)> {
        loop {
            if let Some(end) = self.read.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&self.read[..end]).to_ascii_lowercase();
                self.read.drain(..end + 4);
                let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
                let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
                return Ok((status.ok_or(io::ErrorKind::InvalidData)?, length.unwrap_or_default()));
            }
            if self.stream.read_buf(&mut self.read).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}
