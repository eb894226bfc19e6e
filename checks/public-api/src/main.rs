//! Prints the public interface of a crate, an item in each line, from the JSON that rustdoc writes.

use std::process::ExitCode;

use public_api::Builder;

fn main() -> ExitCode {
    let Some(json) = std::env::args_os().nth(1) else {
        eprintln!("usage: leaparray-public-api FILE.json");
        return ExitCode::from(2);
    };
    // Without blanket implementations, and without the auto traits.
    let builder =
        Builder::from_rustdoc_json(json).omit_blanket_impls(true).omit_auto_trait_impls(true);
    match builder.build() {
        Ok(interface) => {
            interface.items().for_each(|item| println!("{item}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
