//! What can be done with an engine. Only these combine its rooms.

mod admin;
mod arrive;
mod dispatch;
mod dry_run;
mod observe;
mod refuse;
mod reload;
mod remote;
mod store;
mod tick;
mod workers;

pub(crate) use self::remote::NoRoom;
