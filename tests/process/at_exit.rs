//! Operations while the process exits, in a handler of `atexit`: the thread-locals of the thread
//! that exits are destroyed by then.

use std::process;

use crate::operations::OPERATIONS;
use crate::own_process;

/// Does each operation. Names it first: if it fails, the process aborts.
extern "C" fn do_each() {
    for (name, operation) in OPERATIONS {
        eprintln!("{name}");
        operation();
    }
    eprintln!("all");
}

/// Does each operation in a process that exits on that thread.
fn exit_on(thread: &str) {
    let output = own_process::run("at_exit::exit", thread);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.ends_with("all\n"), "{thread}: {errors}");
}

#[test]
fn thread_that_has_done_each_operation_does_it_again() {
    exit_on("a used thread");
}

#[test]
fn main_thread_does_each_operation() {
    exit_on("the main thread");
}

#[test]
#[ignore = "the process that the other tests start"]
fn exit() {
    let Some(thread) = own_process::argument() else { return };
    assert!(shutdown_hooks::add_shutdown_hook(do_each));
    if thread == "a used thread" {
        for (_, operation) in OPERATIONS {
            operation();
        }
        process::exit(0);
    }
    // Otherwise the main thread exits, after this test.
}
