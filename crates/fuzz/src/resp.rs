//! What a server says in place of the answer of a script.

/// As it ships.
#[path = "../../store/src/redis/reply.rs"]
mod reply;

use redis::Value;
use reply::Reply;

/// Bytes on the wire, through the client library, and what is read of them: an answer or an error, of its size at most.
pub fn resp(data: &[u8]) {
    let Ok(value) = redis::parse_redis_value(data) else { return };
    let items = if let Value::Array(items) = &value { items.len() } else { 0 };
    let Ok(reply) = Reply::read(value) else { return };
    let _time = reply.at();
    let _word = reply.word().map(<[u8]>::len);
    for index in 0..items + 2 {
        let as_bool = reply.number::<u8>(index).is_ok_and(|it| it < 2);
        assert!(!as_bool || index < items, "no number is read beyond the end");
        let _micros = reply.micros(index);
    }
    if let Ok(numbers) = reply.numbers(2) {
        assert_eq!(numbers.len(), items.saturating_sub(2), "all numbers are read");
    }
}
