#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod access;
mod closer;
mod controllers;
mod document;
pub mod format;
mod headers;
mod hub;
mod page;
mod service;
mod snapshot;
mod source;
mod stream;
mod token;

pub use access::Access;
pub use closer::Closer;
#[doc(hidden)]
pub use hub::steps;
pub use page::{Page, service};
pub use service::PageService;
pub use token::{Token, TokenError};
