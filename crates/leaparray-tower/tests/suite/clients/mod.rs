//! The layer in a real server, by real clients over loopback.

mod bodies;
mod cuts;
mod hang_ups;
mod large_frames;
mod limits;
mod resets;
mod server;
mod shutdown;
mod tools;
mod uploads;
mod websocket;
