//! Each operation as the first one of a process, on a small stack. In a process with other threads,
//! it may find what one of them has allocated, such as the cache of a thread that has ended.

use crate::operations::OPERATIONS;
use crate::{SMALL_STACK, on_a_stack_of, own_process};

#[test]
fn each_operation_fits_on_a_small_stack() {
    for (name, _) in OPERATIONS {
        let output = own_process::run("first::operation", name);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {errors}");
    }
}

#[test]
#[ignore = "the process that the other test starts"]
fn operation() {
    let Some(argument) = own_process::argument() else { return };
    let (_, operation) = OPERATIONS.iter().find(|(name, _)| *name == argument).unwrap();
    on_a_stack_of(SMALL_STACK, *operation);
}
