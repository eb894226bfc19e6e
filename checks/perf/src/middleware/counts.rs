//! Counts the instructions and the allocations of a request, which do not depend on the speed of
//! the machine. Both are counted in processes of their own: under callgrind, and with a counting
//! allocator.

use std::env;
use std::process::Command;

use super::requests::Client;
use super::stacks::{self, Stack};
use crate::bytes::output_of_program;

/// The requests before the first one that counts, and those that count.
const WARM_UP: u64 = 1_000;
const COUNTED: u64 = 1_000;

/// The first argument of a process in which callgrind counts the instructions of a service. The
/// second one is the name of the service.
pub(super) const COUNT: &str = "--count";

/// The cost of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counts {
    pub(super) instructions: Option<f64>,
    pub(super) allocations: Option<f64>,
    pub(super) bytes: Option<f64>,
}

/// The name of each service, and its counts.
#[derive(Debug, Default)]
pub(super) struct Counted(pub(super) Vec<(&'static str, Counts)>);

impl Counted {
    pub(super) fn of(&self, stack: &Stack) -> Counts {
        let found = self.0.iter().find(|(name, _)| *name == stack.name);
        found.map_or_else(Counts::default, |&(_, counts)| counts)
    }
}

/// Counts in other processes. What cannot be counted is missing: without valgrind, there are no
/// instructions.
pub(super) fn measure() -> Counted {
    let output = output_of_program(&["middleware"]);
    let counted = stacks::all().map(|stack| {
        let [allocations, bytes] = allocations_of(&output, stack.name);
        (stack.name, Counts { instructions: instructions(&stack), allocations, bytes })
    });
    Counted(counted.collect())
}

/// Counts the allocations and their bytes, and prints them; `middleware` parses the lines. The
/// global allocator must be `dhat`'s.
pub(crate) fn print_allocations() {
    let _profiler = dhat::Profiler::builder().testing().build();
    for stack in stacks::all() {
        let mut client = Client::new(stack.router());
        repeat(&mut client, WARM_UP);
        let before = dhat::HeapStats::get();
        repeat(&mut client, COUNTED);
        let after = dhat::HeapStats::get();
        let [blocks, bytes] =
            [after.total_blocks - before.total_blocks, after.total_bytes - before.total_bytes];
        println!("{}\t{blocks}\t{bytes}", stack.name);
    }
}

/// Returns the allocations and the bytes of a request, from the lines of `print_allocations`.
fn allocations_of(lines: &str, name: &str) -> [Option<f64>; 2] {
    let line = lines.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('\t'));
    let mut fields = line.unwrap_or_default().split('\t');
    [(); 2].map(|()| Some(fields.next()?.parse::<f64>().ok()? / COUNTED as f64))
}

/// Returns the instructions of a request: the median of five processes. In some of them, a bucket
/// begins during more of the requests.
fn instructions(stack: &Stack) -> Option<f64> {
    let mut counts: Vec<_> = (0..5).filter_map(|_| instructions_of_a_process(stack)).collect();
    counts.sort_unstable_by(f64::total_cmp);
    counts.get(counts.len() / 2).copied()
}

/// Runs this program under callgrind. Returns the instructions of a request.
fn instructions_of_a_process(stack: &Stack) -> Option<f64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--toggle-collect=*counted_requests*")
        .arg(env::current_exe().ok()?)
        .args([COUNT, stack.name])
        .output()
        .ok()?;
    let output = String::from_utf8_lossy(&output.stderr);
    let (_, collected) = output.split_once("Collected : ")?;
    let instructions: f64 = collected.lines().next()?.trim().parse().ok()?;
    Some(instructions / COUNTED as f64)
}

/// Sends the requests whose instructions callgrind counts.
///
/// # Errors
///
/// Returns an error if no service has the name.
pub(super) fn count(name: &str) -> Result<(), String> {
    let stack = stacks::all().find(|stack| stack.name == name);
    let stack = stack.ok_or_else(|| format!("no service is named {name}"))?;
    let mut client = Client::new(stack.router());
    repeat(&mut client, WARM_UP);
    counted_requests(&mut client);
    Ok(())
}

/// A function of its own, because callgrind counts from its call to its return.
#[inline(never)]
fn counted_requests(client: &mut Client) {
    repeat(client, COUNTED);
}

fn repeat(client: &mut Client, times: u64) {
    for _ in 0..times {
        client.request();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_belong_to_the_whole_name() {
        let lines = "TraceLayer, subscriber\t9000\t90000\nTraceLayer\t12000\t700500\n";
        assert_eq!(allocations_of(lines, "TraceLayer"), [Some(12.0), Some(700.5)]);
        assert_eq!(allocations_of(lines, "axum"), [None, None]);
    }
}
